#pragma once

#include "serve/answers.h"
#include "serve/completion-response.h"
#include "serve/http.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace buoy::serve {

// A model that is served, with what computes it.
struct Loaded {
    Loaded(std::shared_ptr<const Model> model, const ServeParams & params);

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

    // From here on the model's routes answer; before, they say that it is loading.
    void serve(std::shared_ptr<const Model> model);

    HttpResponse handle(const HttpRequest & request);

    void stop(); // cancels what is being answered

private:
    HttpResponse            route(const HttpRequest & request);
    std::shared_ptr<Loaded> loaded() const; // throws HttpError while there is none

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
    std::shared_ptr<Loaded>                       loaded_;
    std::map<std::string, std::weak_ptr<Answers>> running_; // by the id of their response

    std::atomic<uint64_t> n_requests_ = 0;
    std::atomic<uint64_t> n_errors_   = 0;
};

// The request's body as JSON; throws HttpError.
nlohmann::json parse_body(const HttpRequest & request);

// What says something about the model.
HttpResponse tokenize(const HttpRequest & request, const ServedModel & model);
HttpResponse detokenize(const HttpRequest & request, const ServedModel & model);
HttpResponse apply_template(const HttpRequest & request, const ServedModel & model);
HttpResponse list_models(const Loaded & loaded);
HttpResponse describe_model(const Loaded & loaded);
HttpResponse list_slots(const Loaded & loaded);

// What the page asks for besides answers.
HttpResponse find_candidates(const HttpRequest & request, Loaded & loaded);
HttpResponse make_screencast(const HttpRequest & request);
HttpResponse send_page();

} // namespace buoy::serve
