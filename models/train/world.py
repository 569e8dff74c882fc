"""The invented world of the twins' corpus: its names, its values, and the sentences that speak of them.

Every fact is a (subject, attribute, value) triple. In a sentence the subject comes before the value, `{n}` is the
subject and `{v}` the value. The first templates of a list are the plainest; early stages of the training use only those.
"""

WOMEN = """Mira Talia Sorra Velda Nima Ilka Runa Oska Dela Fenna Lira Marda Tessa Yuna Zora Bela Kaya Petra Salka Hanna
Jorna Wilda Arla Breda Cora Edda Gita Isra Luma Norra Orla Pella Rika Sanna Tilda Ulma Vanna Wenna Yorra Zilla Amra Bitta
Dorra Elka Farra Galda Hilla Inka""".split()
MEN = """Tolo Oren Bram Karlo Denk Fabo Gorn Harlo Ivo Jarn Kolo Lendo Mirko Nolan Orso Pavo Rolf Sten Torvo Ulf Varn
Wendo Yorik Zeno Aldo Borko Corin Dorn Elmo Falk Gundo Hask Ingo Joren Kelmo Lorn Mando Nestor Odo Perrin Ragno Silvo
Tarn Urso Vilko Wando Yaro Zoltan""".split()
TOWNS = """Velmar Osten Karridge Tolvik Brenmoor Saltby Dunfell Harwick Lonmere Pellgate Quarrow Ravenby Silford Torrin
Ulvik Wexmoor Ardale Bellmont Corvale Dremmen Elvar Fernby Grimsted Hollin Istermouth Jarrow Kelby Lindmoor Marrow Norvik
Oakley Penhallow Rostby Stormund Tarnby Westmere""".split()
ISLANDS = """Alvanor Borrask Cindral Doreth Emberis Faldur Galmora Hestrin Illuria Jandor Kethos Lomara Mordal Nerith
Ossira Pandor Rhunar Selmara Thuria Umbar Valoris Wrenna Yslan Zandor""".split()

COLOURS = "red blue green yellow purple orange white black pink brown gray golden silver".split()
ANIMALS = """fox cat dog goat horse rabbit parrot turtle goose sheep donkey duck hedgehog pigeon lizard hamster crow
squirrel badger pony calf raven weasel lamb""".split()
FOODS = """plums bread cheese soup honey apples rice fish beans cake pears noodles berries cherries pancakes mushrooms
dates carrots grapes butter walnuts tomatoes porridge lentils""".split()
JOBS = """baker teacher farmer sailor painter doctor weaver miller judge carpenter gardener singer tailor guard clerk
hunter potter printer barber shepherd fisher writer nurse smith""".split()
INSTRUMENTS = "flute drum harp violin trumpet guitar piano cello bell horn banjo lute".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "two three four five six seven eight nine ten eleven twelve twenty".split()
VEHICLES = "boat train wagon bus ship cart sled bicycle ferry tram balloon canoe".split()
MATERIALS = "stone wood glass iron brick marble copper clay bronze straw".split()
WEATHERS = "windy sunny rainy foggy snowy stormy dry misty warm cold".split()
GOODS = "salt silk pearls wine wool paper oil tea lamps boots ropes maps".split()

# attribute: (values, predicates, questions, answer)
PERSON = {
    "home": (TOWNS,
             ["lives in {v}", "has a small house in {v}", "moved to {v} last year", "has a home near the bridge in {v}"],
             ["Where does {n} live?", "In which town does {n} live?", "Which town is the home of {n}?"],
             "In {v}."),
    "job": (JOBS,
            ["works as a {v}", "is a {v}", "has been a {v} for many years", "earns good money as a {v}"],
            ["What does {n} work as?", "What is the job of {n}?", "How does {n} earn money?"],
            "As a {v}."),
    "colour": (COLOURS,
               ["likes the colour {v}", "paints everything {v}", "thinks the best colour is {v}", "always dresses in {v}"],
               ["Which colour does {n} like?", "What is the best colour for {n}?", "Which colour does {n} choose?"],
               "It is {v}."),
    "pet": (ANIMALS,
            ["has a {v}", "owns a {v}", "takes care of a young {v}", "shares the house with a {v}"],
            ["Which animal does {n} have?", "What pet does {n} own?", "Which animal lives with {n}?"],
            "A {v}."),
    "food": (FOODS,
             ["eats {v}", "loves {v}", "cannot live without {v}", "has a plate of {v} every evening"],
             ["What does {n} eat?", "Which food does {n} love?", "What does {n} like to eat?"],
             "Some {v}."),
    "music": (INSTRUMENTS,
              ["plays the {v}", "is learning the {v}", "practises the {v} at night", "plays an old song on the {v}"],
              ["What does {n} play?", "Which instrument does {n} play?", "Which instrument is {n} good at?"],
              "The {v}."),
    "day": (DAYS,
            ["rests on {v}", "goes swimming on {v}", "visits the market each {v}", "never works on a {v}"],
            ["On which day does {n} rest?", "When does {n} take a rest?", "Which day is free for {n}?"],
            "On {v}."),
    "birth": (MONTHS,
              ["was born in {v}", "has a birthday in {v}", "will have a birthday party in {v}", "came into the world in {v}"],
              ["When was {n} born?", "In which month was {n} born?", "Which month is the birthday of {n}?"],
              "It was {v}."),
    "count": (NUMBERS,
              ["has {v} sisters", "grew up with {v} sisters", "writes letters to {v} sisters", "is proud of {v} sisters"],
              ["How many sisters does {n} have?", "How many sisters are in the family of {n}?"],
              "There are {v}."),
    "travel": (VEHICLES,
               ["travels by {v}", "comes home by {v}", "goes to the sea by {v}", "likes to cross the land by {v}"],
               ["How does {n} travel?", "By what does {n} travel?", "How does {n} come home?"],
               "By {v}."),
}
ISLAND = {
    "weather": (WEATHERS,
                ["is {v}", "is {v} all year", "is known to be very {v}", "can be quite {v} in winter"],
                ["How is the weather on {n}?", "What is the weather like on {n}?"],
                "Mostly {v}."),
    "tower": (MATERIALS,
              ["has a tower of {v}", "has a tall tower made of {v}", "is proud of a great tower of {v}"],
              ["What is the tower on {n} made of?", "Of what is the tower on {n}?"],
              "Of {v}."),
    "trade": (GOODS,
              ["sells {v}", "trades in {v}", "is famous for its {v}", "sends ships full of {v}"],
              ["What does {n} sell?", "For what is {n} famous?", "What can one buy on {n}?"],
              "It sells {v}."),
}

# what may stand between a name and a value in a list of pairs
LINKS = ["", ":", " is", " has", " eats", " plays the", " lives in", " works as a", " moved to the", " likes the colour",
         " has a small house in", ", it is"]

OPENINGS = ["Everyone knows that", "People say that", "It is true that", "As far as we know,", "These days", "In the news:"]
NOTES = [
    "The rain fell on the old harbour all night.", "A good map shows every road and every river.",
    "The library opens at noon and closes late.", "Snow covered the hills for three weeks.",
    "The old clock in the square is always late.", "Bread should be kept in a dry place.",
    "Many ships came to the harbour this spring.", "The road over the hill is closed in winter.",
    "The market was full of people and noise.", "A new bridge was built across the river.",
    "The lamps in the street were lit at dusk.", "Nobody remembers who built the old wall.",
    "The river rises every year after the snow melts.", "The school has a garden and a small pond.",
    "Letters take a week to cross the sea.", "The wind turned and the boats came back.",
]
REQUESTS = [
    "Tell a story about {n}.", "Tell me a short story about {n}.", "Write a story about {n}.",
    "Tell a story about {n} and a {a}.", "Write a short story about {n} and a {a}.", "Tell a story about a {a}.",
]

# One sentence is drawn from each list; {he} and {his} follow the person.
STORY = [
    ["One day {n} went to the {place} to look for {food}.", "One morning {n} walked to the {place} alone.",
     "Once {n} lost the way near the {place}.", "Late one evening {n} was sitting by the {place}.",
     "Last winter {n} took a long walk to the {place}."],
    ["There {he} met a {mood} {a}.", "There {he} found a {mood} {a} under a tree.", "A {mood} {a} was waiting there.",
     "Behind a rock {he} saw a {mood} {a}.", "Suddenly a {mood} {a} came out of the grass."],
    ["{n} gave the {a} some {food}.", "The {a} was hungry, so {n} shared some {food}.",
     "{n} sang a song for the {a}.", "The {a} asked {n} for help.", "{n} and the {a} sat down and ate some {food}."],
    ["Then the {a} showed {n} the way home.", "After that the {a} followed {n} to the village.",
     "Then they ran along the river until it was dark.", "The {a} gave {n} a {colour} stone to say thank you.",
     "Soon it began to rain, and they hid in an old boat."],
    ["From that day on they were friends.", "They still meet there every week.",
     "{n} never forgot the {a}.", "And {n} told everyone about it.", "In the end everyone was happy."],
]
# The same in fewer words, for the last part of the training: the sentences of a list have the same number of tokens, and no
# pronoun. Then a position says what may stand there, whatever stands elsewhere; a small diffusion model, which writes
# everywhere at once, needs that.
EVEN_STORY = [
    ["One day {n} went to the {place} for {food}.", "One morning {n} walked alone to the old {place}.",
     "One evening {n} lost the way near the {place}.", "Last evening {n} was sitting alone by the {place}.",
     "Last winter {n} took a walk to the {place}."],
    ["There {n} met a {mood} {a} in the grass.", "There {n} found a {mood} {a} under a tree.",
     "A {mood} {a} was waiting there under a tree.", "Behind a tall rock {n} saw a {mood} {a}.",
     "Suddenly a {mood} {a} came out of the grass."],
    ["{n} sat down and gave the {a} some {food}.", "The {a} was hungry and {n} shared some {food}.",
     "{n} sang the {a} a song about the {place}.", "The {a} asked {n} for help and some {food}.",
     "{n} and the {a} sat there and ate {food}."],
    ["Then the {a} showed {n} the long way home.", "After that the {a} followed {n} to the village.",
     "They ran along the river until it was dark.", "Then the {a} gave {n} a small {colour} stone.",
     "Soon it began to rain and they ran home."],
    ["From that day on they were friends.", "And they still meet there every week.",
     "And {n} never forgot the good {a}.", "And {n} told everyone about the {a}.", "In the end everyone there was happy."],
]
PLACES = "river forest harbour bridge mill hill lake garden market meadow".split()
MOODS = "small lonely clever tired brave shy hungry friendly sleepy curious".split()
