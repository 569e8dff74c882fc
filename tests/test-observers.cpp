// Whoever looks at attention or changes it: recorder, editor, an evaluation's watch, a decoder's own tap, a collector of products. Each sees
// in company what it sees alone, in every order.

#include "buoy/edit.h"
#include "buoy/generate.h"
#include "buoy/record.h"
#include "eval/attention-watch.h"
#include "io/npz-reader.h"
#include "support/oracle.h"
#include "support/paths.h"
#include "support/random-context.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

using namespace buoy;
using namespace buoy::test;

namespace {

enum class Who { recorder, editor, watch, decoder, products };

const std::vector<Who> everybody = {Who::recorder, Who::editor, Who::watch, Who::decoder, Who::products};

// What an observer saw, as numbers.
using Account = std::map<std::string, std::vector<double>>;

struct Company {
    explicit Company(const RandomModel & random, bool stored)
        : path(random_gguf(random)), model(load_model(path, {})), prompt(random_tokens(14, 250)) {
        ContextParams settings = exact_params();
        settings.n_ctx         = 64;
        context                = model->make_context(settings);
        params.n_predict       = 8;
        params.block_length    = random.block_length > 0 ? 0 : 4;
        params.steps_per_block = random.block_length > 0 ? 0 : 2;
        params.cache           = stored ? std::optional(DiffusionCache::prefix) : std::nullopt;
    }

    // One generation with these, attached in this order. Edits change what others see, so an edited run is compared with an edited one.
    std::map<Who, Account> run(const std::vector<Who> & present, bool edited) {
        GenerateParams         with = params;
        std::map<Who, Account> out;

        RecordedRun record_run;
        record_run.prompt_tokens = prompt;
        record_run.generate      = params;
        RecordParams record;
        record.path   = temp_dir() + "/run.npz";
        record.force  = true;
        record.reduce = TapReduce::none;
        record.type   = RecordType::f32;
        record.taps   = {Tap::pattern, Tap::rot_k};
        record.heads  = {0, 2};
        std::optional<Recorder> recorder;

        std::vector<EditSpec> specs = {parse_edit("drop keys=sinks layers=1"), parse_edit("bias keys=3 layers=2 +1.5")};
        const std::vector<Region> regions;
        AttentionEditor           editor(specs, model->info(), regions, 22, 64);
        AttentionEditor hidden(specs, model->info(), regions, 22, 64); // where the editor is not among those asked
        AttentionWatch  watch(*context, prompt, {2, 3});

        for (const Who who : present) {
            switch (who) {
                case Who::recorder:
                    recorder.emplace(record, model->info(), model->vocab(), record_run);
                    recorder->attach(with);
                    break;
                case Who::editor: editor.attach(with); break;
                case Who::watch: watch.attach(with); break;
                case Who::decoder: attach_tap(with, out[Who::decoder]); break;
                case Who::products: attach_products(with, out[Who::products]); break;
            }
        }
        if (edited && std::find(present.begin(), present.end(), Who::editor) == present.end()) {
            hidden.attach(with);
        }
        const Generation generation = generate(*context, prompt, with);
        tokens                      = generation.sequence;
        for (const Who who : present) {
            if (who == Who::recorder) {
                recorder->finish();
                out[who] = read_recording(record.path);
            } else if (who == Who::editor) {
                for (const EditUse & use : editor.uses()) {
                    out[who]["uses"].push_back(static_cast<double>(use.n_places));
                    out[who]["keys"].push_back(static_cast<double>(use.n_keys));
                }
            } else if (who == Who::watch) {
                out[who] = account_of(watch);
            }
        }
        return out;
    }

    std::vector<int32_t> tokens; // of the last run

private:
    // As a decoder would: received attention of two layers, of the rows it asked for.
    static void attach_tap(GenerateParams & with, Account & account) {
        with.on_forward = [&account, next = with.on_forward](int32_t step, ForwardRequest & request) {
            Observer own;
            own.taps           = {{Tap::pattern, 0, TapReduce::received}, {Tap::pattern, 2, TapReduce::heads}};
            own.selection.rows = request.rows;
            std::sort(own.selection.rows.begin(), own.selection.rows.end());
            own.selection.rows.erase(std::unique(own.selection.rows.begin(), own.selection.rows.end()),
                                     own.selection.rows.end());
            own.sink = [&account, step](const TapEvent & event) {
                const int64_t n  = event.shape[0] * event.shape[1] * event.shape[2];
                auto &        to = account[tap_name(event.point.tap, event.point.layer) + "/" + std::to_string(step)];
                to.insert(to.end(), event.data, event.data + n);
            };
            request.observers.push_back(std::move(own));
            if (next) {
                next(step, request);
            }
        };
    }

    static void attach_products(GenerateParams & with, Account & account) {
        with.on_forward = [&account, next = with.on_forward](int32_t step, ForwardRequest & request) {
            Observer own;
            own.products = [&account](const ProductEvent & event) {
                std::vector<double> & sums = account[event.weight];
                sums.resize(static_cast<size_t>(event.n_cols) + 1);
                for (int64_t i = 0; i < event.n_rows * event.n_cols; i++) {
                    sums[static_cast<size_t>(i % event.n_cols)] += static_cast<double>(event.x[i] * event.x[i]);
                }
                sums.back() += static_cast<double>(event.n_rows);
            };
            request.observers.push_back(std::move(own));
            if (next) {
                next(step, request);
            }
        };
    }

    static Account read_recording(const std::string & file) {
        Account         account;
        const NpzReader npz = NpzReader::open(file);
        for (const NpzMember & member : npz.members()) {
            if (member.name.find("step_") != std::string::npos && member.name.find("rows") == std::string::npos) {
                NpyHeader  header;
                const auto values = npz.read_floats(member, header);
                account[member.name].assign(values.begin(), values.end());
            }
        }
        return account;
    }

    static Account account_of(AttentionWatch & watch) {
        Account account;
        for (const AttentionWatch::Written & one : watch.written()) {
            auto & to = account[std::to_string(one.position)];
            for (const auto & of_layer : one.looks) {
                for (const AttentionWatch::Look & look : of_layer) {
                    to.push_back(static_cast<double>(look.most));
                    to.push_back(look.gold);
                }
            }
        }
        for (const auto & of_layer : watch.finish({}).received) {
            auto & to = account["finished"];
            to.insert(to.end(), of_layer.begin(), of_layer.end());
        }
        return account;
    }

    std::string                  path;
    std::shared_ptr<const Model> model;
    std::vector<int32_t>         prompt;
    std::unique_ptr<Context>     context;
    GenerateParams               params;
};

void check_same(const Account & actual, const Account & expected) {
    REQUIRE(!expected.empty());
    REQUIRE(actual.size() == expected.size());
    for (const auto & [name, values] : expected) {
        CAPTURE(name);
        CHECK(actual.at(name) == values); // to the bit: who looks changes nothing
    }
}

void check_all(const RandomModel & model, bool stored) {
    CAPTURE(model.arch);
    Company                company(model, stored);
    std::map<Who, Account> alone, alone_edited;
    for (const Who who : everybody) {
        alone[who]        = company.run({who}, false)[who];
        alone_edited[who] = company.run({who}, true)[who];
    }
    company.run({}, true);
    const std::vector<int32_t> edited_tokens = company.tokens;
    company.run({}, false);
    const std::vector<int32_t> plain_tokens = company.tokens;

    const auto check = [&](const std::vector<Who> & present) {
        const bool             edited = std::find(present.begin(), present.end(), Who::editor) != present.end();
        std::map<Who, Account> seen   = company.run(present, edited);
        CHECK(company.tokens == (edited ? edited_tokens : plain_tokens));
        for (const Who who : present) {
            CAPTURE(static_cast<int>(who));
            check_same(seen[who], edited ? alone_edited[who] : alone[who]);
        }
    };
    for (const Who a : everybody) {
        for (const Who b : everybody) {
            if (a != b) {
                check({a, b});
            }
        }
    }
    check({Who::recorder, Who::editor, Who::watch, Who::decoder, Who::products});
    check({Who::products, Who::decoder, Who::watch, Who::editor, Who::recorder});
}

} // namespace

TEST_CASE("observers: recorder, editor, watch, a decoder's tap and products see in company what they see alone") {
    check_all(small_model("llada"), false);
    check_all(small_model("qwen3", 4), true);
}
