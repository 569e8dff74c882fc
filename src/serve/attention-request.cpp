#include "serve/attention-request.h"

#include "buoy/message.h"
#include "buoy/names.h"

namespace buoy::serve {

namespace {

constexpr Name<AttentionDetail> detail_names[] = {
    {"mean", AttentionDetail::mean}, {"layers", AttentionDetail::layers}, {"heads", AttentionDetail::heads}};

template <typename T, size_t N>
T read_name(const Fields & fields, const std::string & field, const Name<T> (&names)[N], T otherwise) {
    const auto text = fields.text(field);
    if (!text) {
        return otherwise;
    }
    std::string known;
    for (const auto & [name, value] : names) {
        if (*text == name) {
            return value;
        }
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    fields.refuse(field, concat("must be one of ", known, ", not ", in_quotes(*text)));
}

// "0,4-7" or a list of numbers.
IndexRanges read_ranges(const Fields & fields, const std::string & field) {
    const nlohmann::json * value = fields.find(field);
    if (value == nullptr) {
        return {};
    }
    std::string text;
    if (value->is_string()) {
        text = value->get<std::string>();
    } else if (value->is_array() && !value->empty()) {
        for (const nlohmann::json & one : *value) {
            text += (text.empty() ? "" : ",") + one.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
        }
    } else {
        fields.refuse(field, concat("must be a list of numbers or a text such as 0,4-7, not ", shown(*value)));
    }
    try {
        return parse_index_ranges(field, text);
    } catch (const Error & error) {
        fields.refuse(field, concat("is wrong: ", error.what()));
    }
}

void read_frames(const Fields & fields, AttentionRequest & out) {
    fields.check_known({"reduce", "layers", "heads", "steps"});
    out.in_frames = true;
    out.detail    = read_name(fields, "reduce", detail_names, AttentionDetail::mean);
    out.layers    = read_ranges(fields, "layers");
    out.heads     = read_ranges(fields, "heads");
    out.steps     = read_ranges(fields, "steps");
}

// true, a name, or an object that says what to keep.
void read_record(const Fields & body, AttentionRequest & out) {
    const nlohmann::json * value = body.find("record");
    if (value == nullptr || (value->is_boolean() && !value->get<bool>())) {
        return;
    }
    out.records = true;
    if (value->is_string()) {
        out.run_id = value->get<std::string>();
    } else if (!value->is_boolean()) {
        const Fields fields = *body.object("record");
        fields.check_known({"id", "reduce", "type", "layers", "heads", "steps", "rows"});
        out.run_id        = fields.text("id");
        out.record.reduce = read_name(fields, "reduce", reduce_names, out.record.reduce);
        out.record.type   = read_name(fields, "type", record_type_names, out.record.type);
        out.record_layers = read_ranges(fields, "layers");
        out.record_heads  = read_ranges(fields, "heads");
        out.record_steps  = read_ranges(fields, "steps");
        out.record_rows   = read_ranges(fields, "rows");
    }
}

} // namespace

AttentionRequest parse_attention(const Fields & body) {
    AttentionRequest out;
    if (const auto fields = body.object("attention")) {
        read_frames(*fields, out);
        if (!body.flag("diffusion_frames").value_or(false)) {
            body.refuse("attention", "is told in frames; set \"diffusion_frames\": true and \"stream\": true");
        }
    }
    read_record(body, out);
    for (const std::string & text : body.texts("attention_edit").value_or(std::vector<std::string>())) {
        try {
            out.edits.push_back(parse_edit(text));
        } catch (const Error & error) {
            body.refuse("attention_edit", concat("is wrong: ", error.what()));
        }
    }
    out.compare = body.flag("compare").value_or(false);
    if (out.compare && out.edits.empty()) {
        body.refuse("compare", "needs attention_edit: without edits both answers would be the same");
    }
    return out;
}

} // namespace buoy::serve
