// One WebSocket is one session on the server. Requests are answered in their order.

export class ServerError extends Error {
  constructor(data) {
    super(data.message);
    this.code = data.code;
  }
}

export class Session {
  #socket = null;
  #waiting = [];
  #lastError = null;

  /** Begin an episode; connects where there is no connection. */
  async reset(options) {
    if (this.#socket?.readyState !== WebSocket.OPEN) await this.#connect();
    return this.#ask({ type: "reset", data: options });
  }

  /** Play one action. */
  step(action_type, argument) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return Promise.reject(this.#gone());
    return this.#ask({ type: "step", data: { action_type, argument } });
  }

  #connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws`);
    this.#socket = socket;
    this.#lastError = null;
    socket.addEventListener("message", (event) => this.#receive(JSON.parse(event.data)));
    socket.addEventListener("close", () => {
      for (const { reject } of this.#waiting.splice(0)) reject(this.#gone());
    });
    return new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      const refuse = () => reject(this.#lost("The server does not answer."));
      socket.addEventListener("error", refuse, { once: true });
    });
  }

  #ask(message) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#socket.send(JSON.stringify(message));
    });
  }

  #receive(message) {
    if (message.type === "error") this.#lastError = new ServerError(message.data);
    const asked = this.#waiting.shift();
    if (!asked) return; // the server's last words before it closes
    if (message.type === "error") asked.reject(this.#lastError);
    else asked.resolve(message.data);
  }

  #gone() {
    return this.#lost(
      this.#lastError?.code === "SESSION_IDLE"
        ? "The session was closed because nothing happened for a while."
        : "The connection to the server is gone.",
    );
  }

  #lost(message) {
    return Object.assign(new Error(message), { sessionLost: true });
  }
}
