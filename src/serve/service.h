#pragma once

#include "serve/answers.h"
#include "serve/completion-response.h"
#include "serve/http.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace buoy::serve {

// A model that is served, with what computes it.
struct Loaded {
    Loaded(std::shared_ptr<const Model> model, std::string name, const ServeParams & params);

    std::shared_ptr<const Model> model;
    std::unique_ptr<Context>     context;
    ServedModel                  served;
    std::string                  fingerprint; // of program, model and what changes its answers
    int64_t                      created = 0; // seconds since 1970
    Scheduler                    scheduler;   // last: it uses the context
};

// The routes, without sockets. Requests come from any thread.
class Service {
public:
    explicit Service(const ServeParams & params) : params_(params), runs_(params.runs_dir, params.runs_max_size) {}

    // From here on the model's routes answer; before, they say that it is loading. The first one is the default.
    void serve(std::shared_ptr<const Model> model);

    HttpResponse handle(const HttpRequest & request);

    void stop(); // cancels what is being answered

private:
    using LoadedList = std::vector<std::shared_ptr<Loaded>>;

    HttpResponse            route(const HttpRequest & request);
    LoadedList              all_loaded() const; // throws HttpError while there is none
    std::shared_ptr<Loaded> loaded(const std::string & name) const;
    std::shared_ptr<Loaded> loaded(const nlohmann::json & body) const;
    std::string             free_name(const ModelInfo & info) const;

    HttpResponse complete(const HttpRequest & request, Api api);
    HttpResponse cancel(const std::string & id);
    HttpResponse health() const;
    HttpResponse metrics() const;
    HttpResponse list_runs() const;
    HttpResponse send_run(const std::string & id) const;
    HttpResponse send_report(const std::string & id) const;
    HttpResponse delete_run(const std::string & id);

    ServeParams                                   params_;
    Runs                                          runs_;
    mutable std::mutex                            mutex_;
    LoadedList                                    loaded_;
    std::map<std::string, std::weak_ptr<Answers>> running_; // by the id of their response

    std::atomic<uint64_t> n_requests_ = 0;
    std::atomic<uint64_t> n_errors_   = 0;
};

// The request's body as JSON; throws HttpError.
nlohmann::json parse_body(const HttpRequest & request);

// What says something about a model.
HttpResponse tokenize(const nlohmann::json & body, const ServedModel & model);
HttpResponse detokenize(const nlohmann::json & body, const ServedModel & model);
HttpResponse apply_template(const nlohmann::json & body, const ServedModel & model);
HttpResponse list_models(std::span<const std::shared_ptr<Loaded>> loaded);
HttpResponse describe_model(const Loaded & loaded);
HttpResponse list_slots(std::span<const std::shared_ptr<Loaded>> loaded);

// What the page asks for besides answers.
HttpResponse find_candidates(const nlohmann::json & body, Loaded & loaded);
HttpResponse make_screencast(const HttpRequest & request);
HttpResponse send_page();

} // namespace buoy::serve
