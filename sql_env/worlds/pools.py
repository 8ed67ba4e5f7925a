"""Names that several domains share: people and places."""

from __future__ import annotations


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def items(text: str) -> tuple[str, ...]:
    """The parts of a text between its commas."""
    return tuple(" ".join(part.split()) for part in text.split(","))


FIRST_NAMES = split_words(
    """Ada Adrian Aisha Alan Alice Amara Amir Ana Anders Andrea Anita Anton Arjun Astrid Ayumi Bela
    Ben Bianca Boris Bruno Camila Carl Carmen Cecilia Chen Chloe Clara Daniel Daria David Diego
    Dina Dmitri Edgar Elena Elias Ellen Emil Emma Eric Esther Eva Farid Fatima Felix Fiona Frank
    Freya Gabriel George Gloria Grace Greta Hana Hannah Harold Hassan Helen Henrik Hugo Ibrahim Ida
    Igor Ines Ingrid Irene Isaac Isabel Ivan Jack Jana Jasmin Javier Jean Joan Joel Jonas Jorge
    Julia Kaito Karim Karl Kate Kenji Kofi Kwame Laila Lars Laura Leila Leo Liam Lin Linda Lucas
    Lucia Luis Magda Mai Marco Maria Marta Martin Mateo Maya Mei Mia Milan Mina Mohamed Mona Nadia
    Naomi Nelson Nia Nikolai Nina Noah Nora Olaf Olga Oliver Omar Oscar Pablo Paula Pavel Pedro
    Petra Pierre Priya Quentin Rachel Rafael Raj Rania Renata Ricardo Rita Robert Rosa Ruth Sara
    Samuel Sana Santiago Sergei Simon Sofia Stefan Susan Sven Tamar Tara Thomas Tina Tom Umar Ursula
    Vera Victor Viola Walter Wei Wendy William Xavier Yara Yasmin Yuki Yusuf Zara Zoe"""
)

LAST_NAMES = split_words(
    """Abbott Adeyemi Ahmed Alvarez Andersen Aoki Bailey Baker Barros Bauer Becker Berg Bianchi
    Blake Bose Boyd Brandt Burke Carter Castro Chavez Chen Cohen Costa Cruz Dahl Dalton Diaz Doyle
    Dubois Duran Eriksen Evans Farah Ferrari Fischer Fleming Foster Fournier Fuentes Garcia Gibson
    Gomez Grant Gupta Haddad Hall Hansen Haruki Hayes Herrera Hoffman Holm Hughes Hunt Ibarra Ito
    Ivanov Jensen Johansson Jones Kaplan Keller Khan Kim Klein Kovacs Kowalski Kumar Lambert Larsen
    Lehmann Levy Li Lindgren Lopez Lund Maier Marino Martens Mendes Meyer Miller Moreau Mori Morris
    Mwangi Nagy Nakamura Ndiaye Nguyen Nilsen Novak Nowak Obi Okafor Olsen Ortega Osei Park Patel
    Pereira Petrov Popescu Quinn Ramos Rao Reid Reyes Ricci Rivera Roberts Romano Rossi Roth Russo
    Sanchez Santos Sato Schmidt Schneider Shah Silva Singh Sokolov Stein Suzuki Svensson Takahashi
    Tanaka Taylor Thomsen Torres Tran Turner Vargas Vasquez Vega Virtanen Vogel Wagner Walsh Wang
    Weber Weiss Wilson Wong Wright Yamada Yang Yilmaz Young Zhang Ziegler Zimmer"""
)

CITIES = {
    "Accra": "Ghana",
    "Amsterdam": "Netherlands",
    "Athens": "Greece",
    "Austin": "United States",
    "Barcelona": "Spain",
    "Bergen": "Norway",
    "Berlin": "Germany",
    "Bologna": "Italy",
    "Boston": "United States",
    "Brisbane": "Australia",
    "Bristol": "United Kingdom",
    "Cairo": "Egypt",
    "Calgary": "Canada",
    "Chicago": "United States",
    "Copenhagen": "Denmark",
    "Denver": "United States",
    "Dublin": "Ireland",
    "Edinburgh": "United Kingdom",
    "Geneva": "Switzerland",
    "Ghent": "Belgium",
    "Gothenburg": "Sweden",
    "Guadalajara": "Mexico",
    "Hamburg": "Germany",
    "Helsinki": "Finland",
    "Istanbul": "Turkey",
    "Kampala": "Uganda",
    "Krakow": "Poland",
    "Kyoto": "Japan",
    "Lagos": "Nigeria",
    "Leeds": "United Kingdom",
    "Lima": "Peru",
    "Lisbon": "Portugal",
    "Lyon": "France",
    "Madrid": "Spain",
    "Manchester": "United Kingdom",
    "Marseille": "France",
    "Melbourne": "Australia",
    "Milan": "Italy",
    "Montevideo": "Uruguay",
    "Montreal": "Canada",
    "Mumbai": "India",
    "Munich": "Germany",
    "Nairobi": "Kenya",
    "Nantes": "France",
    "Osaka": "Japan",
    "Oslo": "Norway",
    "Portland": "United States",
    "Porto": "Portugal",
    "Prague": "Czech Republic",
    "Pune": "India",
    "Quito": "Ecuador",
    "Rotterdam": "Netherlands",
    "Salvador": "Brazil",
    "Santiago": "Chile",
    "Sapporo": "Japan",
    "Seattle": "United States",
    "Seoul": "South Korea",
    "Seville": "Spain",
    "Tampere": "Finland",
    "Toronto": "Canada",
    "Turin": "Italy",
    "Valencia": "Spain",
    "Vancouver": "Canada",
    "Vienna": "Austria",
    "Wellington": "New Zealand",
    "Zurich": "Switzerland",
}

COUNTRIES_WITH_ARTICLE = frozenset(
    items("Czech Republic, Netherlands, United Kingdom, United States")
)
