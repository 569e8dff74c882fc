#include "manual.h"

#include "buoy/preset.h"

const char * const manual_introduction =
    R"(Runs masked-diffusion and autoregressive language models from GGUF files. Flags that llama.cpp also has keep its names and
meanings, with these differences: `--temp` defaults to 0; `--ignore-eos` does not forbid end tokens, generation just continues
after them; escapes such as `\n` are processed in `-p` but not in files; `-n -1` stops where the context is full. A flag that
only llama.cpp has is refused with a hint. Many flags can also be set through the environment variable listed beside them;
the command line takes precedence.

```sh
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" -n 128 --diffusion-block-length 32
llama-diffusion-cli -m llada.gguf -p "Why is the sky blue?" --diffusion-visual
llama-diffusion-cli -m llada.gguf --infill -p "def add(a, b):[[12]]return c"
llama-diffusion-cli -m llada.gguf -cnv -sys "Answer in one sentence."
cat question.txt | llama-diffusion-cli -m llada.gguf -p - --json > answer.json
```

Standard output carries the text and nothing else. The text of an autoregressive model appears as it is generated, that of a
diffusion model when it is complete. Progress (on a terminal only), warnings and one final line of timings go to standard
error; `--no-perf` turns off the timings and the environment variable `NO_COLOR` the colours. On a terminal, control characters
that a model writes are shown as `\xNN` (line breaks and tabs stay); a pipe or a file gets them as they are.

Prompt and answer may be as long as the model was trained for; `-c N` allows more and says what the run will take.

Exit codes: 0 success, 1 invalid request (flag, file, model), 2 failure while running, 130 interrupted by Ctrl-C or SIGTERM. The
first Ctrl-C stops after the current step and prints the text so far (nothing while the model is loading or a long prompt is
processed), a second one quits at once. Contradictory settings are refused before the model is loaded, unsupported ones right
after.)";

const char * const manual_chapters = R"(
## Reproducing a text

The timings line and `--json` contain the seed, even if it was picked at random (`-s -1`, the default). The same seed, model
and settings give the same text with any number of threads. At temperature 0 the seed has no effect, unless the algorithm is
random.

## Chat

`-cnv` reads one message per line; a `\` at the end of a line continues the message on the next one. `/clear` forgets the
conversation, `/exit` or the end of the input (Ctrl-D) quits, `/help` lists the commands. Ctrl-C stops an answer. At the prompt it clears
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
given stays as it is, byte for byte; there is no chat template. A space before a gap belongs to the gap's first token, as
in any text. The model can't write an end token into a gap, unless the only gap is the end of the text
([decoding.md](decoding.md#infill)).

```sh
llama-diffusion-cli --infill -p "One day Mira went to the [[1]]. There she found a hungry [[1]]."
```

## Raw prompts

With `--raw` the prompt is your own template: there is no chat template, and special tokens such as `<|im_start|>` in the
text become those tokens, as in llama.cpp; `--no-parse-special` keeps them as text. A beginning-of-text token that the
model wants is added unless the prompt starts with it. Without `--raw`, text never becomes a special token.

## JSON

`--json` prints one object:

| field | content |
|---|---|
| `text` | the text, with invalid UTF-8 replaced; with `--infill` the whole text |
| `prompt_tokens`, `tokens` | token ids of the prompt and of the new text, without the end token and anything after it |
| `sequence` | token ids of everything, prompt included; masks where a run left them |
| `steps` | `{"step", "block", "committed": [[position, id], …]}`; positions are absolute, and the mask's id means that the position is masked again. With an adaptive cache also `queries` (positions computed, if not all), `reset_layer` or `refreshed` (by layer); with `-n auto` `stage`, and `gen_length` or `canvas_length`, `expand_at`, `new_length` |
| `forwards` | number of forward passes |
| `seed` | the seed used |
| `ended`, `stopped` | an end token was reached; Ctrl-C stopped it |
| `model` | path, name, architecture, traits and sizes |
| `settings` | settings of the run; `null` where the model decides |
| `timings` | `load_ms`, `prompt_ms`, `decode_ms`, `tokens_per_s` (the first token of an autoregressive run counts as part of its prompt) |
| `version` | version of the program |
| `case` | with `--case`: `id` and `sampler` |
| `recording` | with `--attn-dump`: `path`, `bytes`, and the number of complete `steps` |
| `edit` | with `--attn-edit`: `specs` and what each was `applied` to; with `--attn-edit-compare` also `unedited` (`text`, `tokens`), `changed_tokens`, `first_changed_position`, `same_text`, `confidence` |

Fields may be added, never renamed.

## Published cases

`--case FILE.json:ID` repeats a generation that somebody published: the file's `cases` each have an `id`, a `sampler`, its
`settings`, the `prompt_ids`, and per step the random draws (`canvas_in`, `random_ids`, `u`) if the sampler needs them. The
run is computed exactly (`-fa off -ctk f32 -ctv f32`) and ignores end tokens. Flags after `--case` override it:

```sh
llama-diffusion-cli -m llada.gguf --case cases.json:blocks-4 --json
llama-diffusion-cli -m llada.gguf --case cases.json:blocks-4 --attn-dump run.npz
```

## Attention

`--attn-dump` records what every head of every layer attends to at every step, and `--attn-edit` changes it;
`--attn-edit-compare` shows the texts with and without the edits, differences marked. See
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

std::string manual_presets() {
    std::string text = R"(
## Presets

`--diffusion-preset` sets how much a run approximates for speed. `exact` approximates nothing: it is what happens without any
flag. `balanced` and `fast` are settings by family, of which `-v` prints those that apply as flags; these give the same tokens.
A preset fills in what other flags leave open, and leaves out what they exclude. For autoregressive models, and for families that
are not in the table, all presets are `exact`, and the program says so. [frontier.md](frontier.md) has what they cost and lose.

| family | `balanced` | `fast` | settings are |
|---|---|---|---|
)";
    for (const buoy::PresetFamily & family : buoy::preset_families()) {
        std::string archs;
        for (const std::string & arch : family.archs) {
            archs += (archs.empty() ? "" : ", ") + arch;
        }
        text += "| " + family.name + " (" + archs + ") | `" + family.balanced + "` | `" + family.fast + "` | " +
                family.found + " |\n";
    }
    return text + R"(
`NAME=VALUE` is what `--diffusion-set` takes. A model that recommends a block length is written in blocks of that length instead.
)";
}
