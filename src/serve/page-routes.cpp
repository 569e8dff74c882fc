// What the page at / needs besides answers: itself, a position's candidates, a file that plays an answer again.

#include "serve/page.h"

#include "buoy/message.h"
#include "buoy/screencast.h"
#include "buoy/utf8.h"
#include "serve/fields.h"
#include "serve/service.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace buoy::serve {

namespace {

constexpr int64_t top_max   = 100;
constexpr size_t  frame_max = 4096;
constexpr size_t  token_max = 1 << 20; // of all frames

std::vector<int32_t> read_sequence(const Fields & body, const ServedModel & model) {
    const nlohmann::json * list = body.find("tokens");
    if (list == nullptr || !list->is_array() || list->empty() ||
        list->size() > static_cast<size_t>(model.context.n_ctx)) {
        body.refuse("tokens", concat("must be a list of 1 to ", model.context.n_ctx, " tokens"));
    }
    return body.tokens("tokens", *list, model.info.n_vocab);
}

// The likeliest tokens of a row of logits.
Json candidates_json(const std::vector<float> & logits, size_t n_top, const Vocab & vocab) {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
    n_top            = std::min(n_top, ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n_top), ids.end(),
                      [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
    double sum = 0.0;
    for (const float value : logits) {
        sum += std::exp(static_cast<double>(value) - static_cast<double>(logit(ids[0])));
    }
    Json list = Json::array();
    for (size_t i = 0; i < n_top; i++) {
        const double weight = std::exp(static_cast<double>(logit(ids[i])) - static_cast<double>(logit(ids[0])));
        list.push_back({{"id", ids[i]}, {"text", utf8_repair(vocab.piece(ids[i]))}, {"probability", weight / sum}});
    }
    return list;
}

figure::ScreenFrame read_frame(const Fields & fields, size_t & n_tokens) {
    figure::ScreenFrame frame;
    frame.status                = printable(fields.text("status").value_or(""), 200);
    const nlohmann::json * list = fields.find("tokens");
    if (list == nullptr || !list->is_array() || (n_tokens += list->size()) > token_max) {
        fields.refuse("tokens", concat("must be a list, of at most ", token_max, " tokens in all frames"));
    }
    for (const nlohmann::json & one : *list) {
        const Fields      token(one, "frames.tokens");
        const std::string state = token.text("state").value_or("settled");
        if (state != "masked" && state != "fresh" && state != "settled") {
            token.refuse("state", concat("must be masked, fresh or settled, not ", in_quotes(state)));
        }
        frame.tokens.push_back({token.text("text").value_or(""), state == "masked"  ? figure::TokenState::masked
                                                                 : state == "fresh" ? figure::TokenState::fresh
                                                                                    : figure::TokenState::settled});
    }
    return frame;
}

} // namespace

HttpResponse send_page() {
    static const std::string page =
        report::fill(page_parts().html,
                     {{"hash", report::script_hash(page_parts())}, {"css", page_parts().css}, {"js", page_parts().js}});
    HttpResponse response;
    response.content_type = "text/html; charset=utf-8";
    response.body         = page;
    return response;
}

HttpResponse find_candidates(const nlohmann::json & json, Loaded & loaded) {
    const ServedModel & model = loaded.served;
    const Fields        body(json);
    ForwardRequest      pass;
    pass.tokens         = read_sequence(body, model);
    const auto n        = static_cast<int64_t>(pass.tokens.size());
    const auto position = body.whole("position", 0, n - 1);
    if (!position) {
        body.refuse("position", "is missing");
    }
    const auto    n_top = static_cast<size_t>(body.whole("top", 1, top_max).value_or(5));
    const int32_t row = static_cast<int32_t>(model.info.traits.shift ? std::max<int64_t>(*position - 1, 0) : *position);
    pass.rows         = {row}; // of a shifted model, the row before a position predicts it
    std::vector<float> logits;
    if (!loaded.scheduler.call([&](Context & context) { logits = context.forward(pass).logits; })) {
        throw queue_full();
    }
    return json_response({{"position", *position}, {"candidates", candidates_json(logits, n_top, model.vocab)}});
}

HttpResponse make_screencast(const HttpRequest & request) {
    const nlohmann::json   json = parse_body(request);
    const Fields           body(json);
    const nlohmann::json * frames = body.find("frames");
    if (frames == nullptr || !frames->is_array() || frames->empty() || frames->size() > frame_max) {
        body.refuse("frames", concat("must be a list of 1 to ", frame_max, " frames"));
    }
    figure::Screencast cast;
    cast.command      = printable(body.text("title").value_or(""), 200);
    cast.milliseconds = static_cast<int>(body.whole("milliseconds", 20, 10000).value_or(cast.milliseconds));
    cast.columns      = static_cast<int>(body.whole("columns", 20, 200).value_or(cast.columns));
    size_t n_tokens   = 0;
    for (const nlohmann::json & one : *frames) {
        cast.frames.push_back(read_frame(Fields(one, "frames"), n_tokens));
    }
    HttpResponse response;
    response.content_type = "image/gif";
    response.body         = figure::render_screencast(cast, figure::ScreencastFormat::gif);
    return response;
}

} // namespace buoy::serve
