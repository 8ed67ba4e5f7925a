// Before anything is drawn: the theme that this browser chose last time.
const chosen = localStorage.getItem("sql-env-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
