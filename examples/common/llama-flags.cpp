#include "llama-flags.h"

#include <string_view>

namespace {

struct Row {
    std::string_view names;  // separated by spaces; a * at the end stands for any ending
    std::string_view needed; // the flag of ours that the advice names; a program without it has no counterpart
    std::string_view advice;
};

// The flags of llama.cpp's common/arg.cpp, by what a user wants with them.
constexpr Row rows[] = {
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo -cl --cache-list --offline "
     "--mtp --dflash --eagle3 --embd-gemma-default --fim-qwen-* --gpt-oss-* --vision-gemma-*",
     "--model", "models are not downloaded; download the GGUF file and pass its path with -m"},
    {"--mlock --mmap -lm --load-mode -lzm --lazy-mode -dio --direct-io --no-direct-io -ndio", "--no-mmap",
     "the model file is mapped into memory; --no-mmap reads it all at load instead"},
    {"-tb --threads-batch", "--threads", "-t sets the threads of every pass"},
    {"-C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch "
     "--cpu-strict-batch --prio-batch --poll-batch --numa",
     "--threads", "-t sets the number of threads; taskset or numactl can pin them"},
    {"-b --batch-size -ub --ubatch-size", "", "batch sizes are chosen automatically"},
    {"-fit --fit -fitp --fit-print -fitt --fit-target -fitc --fit-ctx", "--gpu-layers",
     "-ngl auto, the default, puts as many layers on the GPUs as fit"},
    {"-ncffn --n-cpu-ffn", "--override-tensor", "-ot 'ffn=CPU' keeps feed-forward weights on the CPU"},
    {"-kvo --kv-offload -nkvo --no-kv-offload -kvu --kv-unified -no-kvu --no-kv-unified --no-host --op-offload "
     "--no-op-offload -dt --defrag-thold --repack",
     "", "the memory layout is chosen automatically"},
    {"--keep --context-shift --no-context-shift --swa-full -ctxcp --ctx-checkpoints --swa-checkpoints -cms "
     "--checkpoint-min-step -gan --grp-attn-n -gaw --grp-attn-w",
     "--ctx-size", "the context does not shift; -c sets its length"},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro -lcs --lookup-cache-static -lcd --lookup-cache-dynamic "
     "-cram --cache-ram --cache-idle-slots --no-cache-idle-slots",
     "", "nothing is cached between runs"},
    {"--rope-* --yarn-* --override-kv --attention --check-tensors", "", "the settings of the model file always apply"},
    {"--lora --lora-scaled --lora-init-without-apply", "",
     "adapters are not supported; merge them into the checkpoint and convert that"},
    {"--control-vector --control-vector-scaled --control-vector-layer-range", "", "control vectors are not supported"},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file -bs --backend-sampling", "",
     "constrained output is not supported"},
    {"--mirostat --mirostat-lr --mirostat-ent --repeat-penalty --repeat-last-n --presence-penalty --frequency-penalty "
     "--dry-* --xtc-* --typical --typical-p --top-nsigma --top-n-sigma --samplers --sampler-seq --sampling-seq "
     "--dynatemp-* --adaptive-*",
     "--top-p", "this sampler is not supported; --temp, --top-k, --top-p, --min-p and --logit-bias are"},
    {"-l", "--logit-bias", "use --logit-bias"},
    {"--diffusion-add-gumbel-noise", "--temperature", "a --temp above 0 samples, which is what the noise is for"},
    {"--jinja --no-jinja --chat-template --chat-template-file --chat-template-kwargs --skip-chat-parsing "
     "--no-skip-chat-parsing --prefill-assistant --no-prefill-assistant --in-prefix --in-suffix --in-prefix-bos "
     "--reasoning-* -rea --reasoning --no-reasoning-preserve",
     "--raw", "the model's own chat template is used; with --raw, -p can contain a template of yours"},
    {"-sysf --system-prompt-file", "--system-prompt", "use -sys \"$(cat FILE)\""},
    {"-bf --binary-file --in-file", "--raw", "--raw -f FILE reads a prompt byte for byte"},
    {"-no-cnv --no-conversation -st --single-turn", "--conversation",
     "without -cnv the program answers one prompt and exits"},
    {"-i --interactive -if --interactive-first --simple-io", "--conversation", "-cnv starts a chat"},
    {"-mli --multiline-input", "--conversation", "in a chat, a \\ at the end of a line continues the message"},
    {"-r --reverse-prompt", "--n-predict", "a text ends at an end token or after -n tokens"},
    {"-sp --special --display-prompt --no-display-prompt --verbose-prompt -ptc --print-token-count", "--json",
     "--json prints the tokens of prompt and text"},
    {"--parse-special", "--raw", "--raw parses special tokens in the prompt"},
    {"--ids --stdin --no-bos --show-count", "--tokens", "--tokens takes a prompt as token ids"},
    {"--perf --show-timings --no-show-timings", "--no-perf", "timings are printed unless --no-perf is given"},
    {"-lv --verbosity --log-verbosity --log-verbose --log-disable --log-jsonl --no-log-jsonl --log-prompts-dir "
     "--log-prefix --no-log-prefix --log-timestamps --no-log-timestamps",
     "--verbose", "-v logs details, --log-file FILE keeps them"},
    {"-co --color --log-colors", "",
     "colours appear on terminals only; the environment variable NO_COLOR turns them off"},
    {"--warmup --no-warmup", "", "there is no warm-up pass"},
    {"-np --parallel -ns --sequences -cb --cont-batching -nocb --no-cont-batching -pps -tgs -npp -ntg -npl", "",
     "llama-diffusion-bench -np measures several texts in one batch"},
    {"-md --model-draft -hfd -hfrd --hf-repo-draft --draft* --spec-* -td --threads-draft -tbd --threads-batch-draft "
     "-Cd "
     "--cpu-mask-draft -Crd --cpu-range-draft --cpu-strict-draft --prio-draft --poll-draft -Cbd --cpu-mask-batch-draft "
     "-Crbd --cpu-range-batch-draft --cpu-strict-batch-draft --prio-batch-draft --poll-batch-draft -ctkd "
     "--cache-type-k-draft -ctvd --cache-type-v-draft -otd --override-tensor-draft -cmoed --cpu-moe-draft -ncmoed "
     "--n-cpu-moe-draft -devd --device-draft -ngld --gpu-layers-draft --n-gpu-layers-draft "
     "--no-spec-draft-backend-sampling",
     "", "speculative decoding is not supported"},
    {"-mm --mmproj* --no-mmproj* -mmu --image* --audio --video* --mtmd-* --tts-* -mv --model-vocoder", "",
     "only text is supported"},
    {"--embedding --embeddings --rerank --reranking --pooling --embd-* --cls-separator --context-file --chunk-size "
     "--chunk-separator",
     "", "embeddings are not supported"},
    {"--host --port --reuse-port --path --cors-* --no-cors-credentials --api-* --ui* --no-ui* --webui* --no-webui* "
     "--tools* --mcp-* -ag --agent -no-ag --no-agent --ssl-* -to --timeout --sse-ping-interval --threads-http "
     "--cache-prompt --no-cache-prompt --cache-reuse --metrics --props --slots --no-slots --slot-save-path -sps "
     "--slot-prompt-similarity --media-path --models-* --no-models-autoload --sleep-idle-seconds --server-base -a "
     "--alias --tags --kv-unified-per-slot",
     "", "there is no server; llama-diffusion-cli -cnv chats, and its --json is for scripts"},
    {"--hellaswag* --winogrande* --multiple-choice* --kl-divergence* --save-all-logits --ppl* --no-ppl", "",
     "llama-diffusion-convert loss measures cross-entropy, llama-diffusion-eval scores answers"},
    {"--save-logits --logits-output-dir --tensor-filter", "--logits-out",
     "--logits-out FILE.npy writes the logits of one pass"},
    {"-ofreq --output-frequency --save-frequency --process-output --from-chunk --show-statistics --output-format", "",
     "the importance matrix is written once, at the end"},
    {"-lr --learning-rate* -lr-min -decay-epochs -wd --weight-decay -val-split --val-split -epochs --epochs -opt "
     "--optimizer --positive-file --negative-file --pca-* --method",
     "", "training is not supported"},
    {"--usage", "", "use --help"},
    {"--completion-bash", "", "cmake --install installs shell completions"},
    {"--output-file", "--output", "use -o"},
    {"--junk --pos --check", "", "there is no such test here"},
    {"--spm-infill", "--infill", "--infill fills gaps written as [[N]]"},
};

bool matches(std::string_view pattern, std::string_view name) {
    const bool any_ending = pattern.back() == '*';
    return any_ending ? name.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1) : name == pattern;
}

bool lists(std::string_view names, std::string_view name) {
    while (!names.empty()) {
        const size_t end = std::min(names.find(' '), names.size());
        if (matches(names.substr(0, end), name)) {
            return true;
        }
        names.remove_prefix(std::min(end + 1, names.size()));
    }
    return false;
}

} // namespace

std::string llama_flag_advice(const std::string & name, const std::function<bool(const std::string &)> & has) {
    for (const Row & row : rows) {
        if (lists(row.names, name)) {
            const bool useful = row.needed.empty() || has(std::string(row.needed));
            return useful ? std::string(row.advice) : "it has no counterpart in this program";
        }
    }
    return "";
}
