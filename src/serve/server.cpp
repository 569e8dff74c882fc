// Sockets: what httplib reads becomes a HttpRequest, and a HttpResponse what it writes.

#include "buoy/serve.h"

#include "buoy/message.h"
#include "serve/connection-threads.h"
#include "serve/gate.h"
#include "serve/service.h"

#include <algorithm>

namespace buoy::serve {

namespace {

constexpr auto io_timeout = std::chrono::seconds(30); // for a client that neither reads nor writes

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

HttpRequest to_request(const httplib::Request & from) {
    HttpRequest out;
    out.method = from.method == "HEAD" ? "GET" : from.method;
    out.path   = from.path;
    out.body   = from.body;
    for (const auto & [name, value] : from.params) {
        out.query.emplace(name, value);
    }
    for (const auto & [name, value] : from.headers) {
        out.headers.emplace(lower(name), value);
    }
    out.is_gone = from.is_connection_closed;
    return out;
}

void send(HttpResponse from, httplib::Response & to) {
    to.status = from.status;
    for (const auto & [name, value] : from.headers) {
        to.set_header(name, value);
    }
    if (from.stream) {
        to.set_chunked_content_provider(
            from.content_type, [stream = std::move(from.stream)](size_t, httplib::DataSink & sink) {
                stream([&](std::string_view text) { return sink.write(text.data(), text.size()); });
                sink.done();
                return true;
            });
    } else if (!from.file.empty()) {
        to.set_file_content(from.file, from.content_type);
    } else if (from.status != 204) {
        to.set_content(std::move(from.body), from.content_type);
    }
}

// What httplib refuses by itself: a body that is too long, a line that is no HTTP.
ErrorBody protocol_error(int status, const Limits & limits) {
    switch (status) {
        case 404: return {.status = 404, .message = "there is no such route", .code = "not_found"};
        case 413:
            return {.status  = 413,
                    .message = concat("the request body is longer than ", limits.body_bytes, " bytes"),
                    .code    = "body_too_long"};
        default:
            return {.status  = status,
                    .message = concat("the request is not valid HTTP (", httplib::status_message(status), ")")};
    }
}

} // namespace

class Server::Impl {
public:
    explicit Impl(const ServeParams & params) : params_(params), gate_(params), service_(params) {
        http_.new_task_queue = [this] {
            return new ConnectionThreads(static_cast<size_t>(params_.limits.n_connections));
        };
        http_.set_payload_max_length(params.limits.body_bytes);
        http_.set_read_timeout(io_timeout);
        http_.set_write_timeout(io_timeout);
        http_.set_tcp_nodelay(true);
        // a port that another server uses is an error, not shared with it
        http_.set_socket_options([](socket_t socket) { httplib::set_socket_opt(socket, SOL_SOCKET, SO_REUSEADDR, 1); });
        add_handlers();
        port_ = params.port == 0                               ? http_.bind_to_any_port(params.host)
                : http_.bind_to_port(params.host, params.port) ? params.port
                                                               : -1;
        if (port_ < 0) {
            fail_runtime("cannot listen on ", printable(params.host), ", port ", params.port,
                         ": the port is in use, or the address is not one of this machine");
        }
        thread_ = std::thread([this] { http_.listen_after_bind(); });
        http_.wait_until_ready();
    }

    ~Impl() {
        service_.stop();
        drain();
    }

    void serve(std::shared_ptr<const Model> model) { service_.serve(std::move(model)); }

    void drain() {
        http_.stop();
        if (thread_.joinable()) {
            thread_.join(); // it waits for the connections
        }
    }

    int32_t             port() const { return port_; }
    const std::string & host() const { return params_.host; }

private:
    void add_handlers() {
        using Reply = httplib::Server::HandlerResponse;
        http_.set_pre_routing_handler([this](const httplib::Request & from, httplib::Response & to) {
            const HttpRequest request = to_request(from);
            if (auto answer = gate_.answer(request)) {
                send(std::move(*answer), to);
                return Reply::Handled;
            }
            for (const auto & [name, value] : gate_.cors_headers(request)) {
                to.set_header(name, value);
            }
            return Reply::Unhandled;
        });
        const auto handler = [this](const httplib::Request & from, httplib::Response & to) {
            send(service_.handle(to_request(from)), to);
        };
        http_.Get(".*", handler).Post(".*", handler).Put(".*", handler).Patch(".*", handler).Delete(".*", handler);
        http_.set_error_handler([this](const httplib::Request &, httplib::Response & to) {
            if (to.body.empty()) {
                send(error_response(protocol_error(to.status, params_.limits)), to);
            }
        });
    }

    const ServeParams params_;
    Gate              gate_;
    Service           service_;
    httplib::Server   http_;
    int32_t           port_ = 0;
    std::thread       thread_;
};

Server::Server(const ServeParams & params) : impl_(std::make_unique<Impl>(params)) {}

Server::~Server() = default;

int32_t Server::port() const { return impl_->port(); }

std::string Server::url() const {
    const std::string & host = impl_->host();
    return concat("http://", host.find(':') != std::string::npos ? "[" + host + "]" : host, ":", port());
}

bool Server::is_local() const { return serve::is_local(impl_->host()); }

void Server::serve(std::shared_ptr<const Model> model) { impl_->serve(std::move(model)); }

void Server::drain() { impl_->drain(); }

} // namespace buoy::serve
