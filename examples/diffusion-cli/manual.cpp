#include "manual.h"

const char * const manual_introduction =
    R"(Runs masked-diffusion and autoregressive language models from GGUF files. Flags that llama.cpp has too are called and mean
the same here, with these differences: `--temp` is 0 unless given; `--ignore-eos` does not forbid end tokens, it only goes
on behind them; escapes such as `\n` are processed in `-p`, but not in files; `-n -1` ends where the context does. Many
flags can also come from the environment variable named beside them; the command line wins.

```sh
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" -n 128 --diffusion-block-length 32
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" --diffusion-visual
llama-diffusion-cli -m llada.gguf --infill -p "def add(a, b):[[12]]return c"
llama-diffusion-cli -m llada.gguf -cnv -sys "Answer in one sentence."
cat question.txt | llama-diffusion-cli -m llada.gguf -p - --json > answer.json
```

Standard output carries the text and nothing else. An autoregressive model's text appears as it is generated, a diffusion
model's when it is complete. Progress (on a terminal only), warnings and, at the end, one line of timings go to standard
error; `--no-perf` leaves the timings out and `NO_COLOR` the colours.

Exit codes: 0 done, 1 the request was wrong (flag, file, model), 2 it failed while running, 130 on Ctrl-C or SIGTERM. The
first Ctrl-C ends with the text that is there (none while the model is loaded or a long prompt is read), the second one at
once. Settings that contradict each other are refused before the model is loaded, those that it can't do right after.)";

const char * const manual_chapters = R"(
## Reproducing a text

The seed is part of the timings line and of `--json`, also where it was drawn (`-s -1`, the default). The same seed, model
and settings give the same text for any number of threads. At temperature 0 nothing is drawn, unless an algorithm does it.

## Chat

`-cnv` reads one message per line; a `\` at the end of a line continues the message on the next one. `/clear` forgets the
conversation, `/exit` or the end of the input (Ctrl-D) quits, `/help` lists the commands. Ctrl-C stops an answer. At the prompt it takes back
what you are typing; on an empty line, two of them quit. `-p` or `-f` is the first message, `-sys` the system message. When the context (`-c`) is
full, the oldest question and its answer are forgotten. A model without a chat template can't chat.

At a terminal, lines are edited as in a shell (arrow keys, Ctrl-A, Ctrl-E, Ctrl-W, Ctrl-R to search), and pasted lines stay one message. The
last 1000 messages are kept for the next chat in `${XDG_STATE_HOME:-~/.local/state}/buoy/chat-history`, which only you can read; `--no-history` neither
reads nor writes it. Keys can be bound in `~/.editrc` (editrc(5)). All this needs a build with libedit.

## Watching it

`--diffusion-visual` shows the text on standard error while it is written: masks dim, what the last step wrote bold and green, `∎` for an
end token. On a terminal each step stays for a moment (`--diffusion-visual-delay`), which the timings leave out; at the end
the answer takes the place of the last frame, or the frame stays where standard output goes elsewhere. Without a terminal
every step is one plain line.

`--diffusion-visual-out` saves the same as an animation, with the command above it: an SVG or a GIF for a page (the GIF's
own font draws what it does not know as a box), or a `.cast` for `asciinema play`. In the file every step lasts as long,
however long it took to compute.

```sh
llama-diffusion-cli -p "Tell a story about Mira and a fox." -n 64 \
  --diffusion-visual --diffusion-visual-out story.svg
```

## Infill

`--infill` takes text with gaps: `[[N]]` stands for N tokens to be filled in, anything else in brackets is text. What was
given stays as it is, byte for byte; there is no chat template. A gap may end up shorter than N tokens where the model
writes an end token into it.

## JSON

`--json` prints one object:

| field | content |
|---|---|
| `text` | the text, invalid UTF-8 replaced; with `--infill` all of it |
| `prompt_tokens`, `tokens` | ids of the prompt and of what is new, without an end token and what follows it |
| `steps` | `{"step", "block", "committed": [[position, id], …]}`; positions are absolute |
| `forwards` | forward passes |
| `seed` | the seed used |
| `ended`, `stopped` | an end token was reached; Ctrl-C stopped it |
| `model` | path, name, architecture, traits and sizes |
| `settings` | what the run was made with; `null` where the model decides |
| `timings` | `load_ms`, `prompt_ms`, `decode_ms`, `tokens_per_s` (an autoregressive run's first token belongs to its prompt) |
| `version` | of the program |
| `recording` | with `--attn-dump`: `path`, `bytes`, and `steps` that are complete |
| `edit` | with `--attn-edit`: `specs` and what each was `applied` to; with `--attn-edit-compare` also `unedited` (`text`, `tokens`), `changed_tokens`, `first_changed_position`, `same_text`, `confidence` |

Fields may be added, never renamed.

## Attention

`--attn-dump` records what each head of each layer attended to at every step, `--attn-edit` changes it. See
[recording.md](recording.md) and [interventions.md](interventions.md).

```sh
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" --attn-dump run.npz
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" --attn-edit "drop keys=sinks" --attn-edit-compare
```

## Token frequencies

`tokens-freq` counts the tokens of plain text files, for `--diffusion-algorithm pc` and `pc-linear`:

```sh
llama-diffusion-cli tokens-freq -m llada.gguf -f corpus/*.txt -o frequencies.json
llama-diffusion-cli -m llada.gguf -p "…" --diffusion-algorithm pc --diffusion-pc-table frequencies.json
```
)";
