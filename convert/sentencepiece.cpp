#include "sentencepiece.h"

#include "buoy/message.h"
#include "io/json-file.h"

#include <cstring>
#include <string_view>

namespace buoy {

namespace {

constexpr size_t   TOKEN_BYTES_MAX = 16384;
constexpr uint64_t MODEL_BPE       = 2;

// One field of a protocol buffer message: a number, or bytes.
struct Field {
    uint64_t         number = 0;
    uint64_t         value  = 0;
    std::string_view bytes;
};

class Message {
public:
    Message(std::string_view bytes, const std::string & path) : rest_(bytes), path_(path) {}

    bool next(Field & field) {
        if (rest_.empty()) {
            return false;
        }
        const uint64_t tag = varint();
        field              = {tag >> 3, 0, {}};
        switch (tag & 7) {
            case 0: field.value = varint(); break;
            case 1: field.bytes = take(8); break;
            case 2: field.bytes = take(varint()); break;
            case 5: field.bytes = take(4); break;
            default: refuse();
        }
        return true;
    }

private:
    [[noreturn]] void refuse() const { fail(printable(path_), ": not a SentencePiece model"); }

    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1)[0]);
            value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) {
                return value;
            }
        }
        refuse();
    }

    std::string_view take(uint64_t n) {
        if (n > rest_.size()) {
            refuse();
        }
        const std::string_view part = rest_.substr(0, static_cast<size_t>(n));
        rest_.remove_prefix(static_cast<size_t>(n));
        return part;
    }

    std::string_view    rest_;
    const std::string & path_;
};

void add_piece(Tokenizer & out, std::string_view bytes, const std::string & path) {
    std::string text;
    float       score = 0;
    uint64_t    type  = 1;
    Message     message(bytes, path);
    for (Field field; message.next(field);) {
        if (field.number == 1) {
            text = field.bytes;
        } else if (field.number == 2 && field.bytes.size() == sizeof(score)) {
            std::memcpy(&score, field.bytes.data(), sizeof(score));
        } else if (field.number == 3) {
            type = field.value;
        }
    }
    if (type < 1 || type > 6 || text.size() > TOKEN_BYTES_MAX || text.find('\0') != std::string::npos) {
        fail(printable(path), ": piece ", out.tokens.size(), " is of type ", type, " and ", text.size(),
             " bytes long, expected types 1 to 6 and no NUL");
    }
    out.tokens.push_back(std::move(text));
    out.types.push_back(static_cast<TokenType>(type)); // llama.cpp took SentencePiece's numbers
    out.scores.push_back(score);
}

// The number of a field inside a message, or the fallback.
uint64_t number_in(std::string_view bytes, uint64_t number, uint64_t fallback, const std::string & path) {
    Message message(bytes, path);
    for (Field field; message.next(field);) {
        fallback = field.number == number ? field.value : fallback;
    }
    return fallback;
}

} // namespace

void read_sentencepiece(Tokenizer & out, const std::string & path, int64_t n_vocab) {
    const std::string bytes = load_text(path);
    uint64_t          kind  = 1; // unigram
    out.pre                 = {TokenizerKind::spm, "default", "none", true};
    Message message(bytes, path);
    for (Field field; message.next(field);) {
        if (field.number == 1) {
            add_piece(out, field.bytes, path);
        } else if (field.number == 2) {
            kind = number_in(field.bytes, 3, kind, path);
        } else if (field.number == 3) {
            out.pre.prefix_space = number_in(field.bytes, 3, 1, path) != 0;
        }
    }
    const auto n = static_cast<int64_t>(out.tokens.size());
    if (n == 0 || kind != MODEL_BPE) {
        fail(printable(path), ": ", n, " pieces, model type ", kind, ", expected SentencePiece BPE (", MODEL_BPE, ")");
    }
    if (n > n_vocab) {
        fail(printable(path), ": ", n, " pieces, the embedding has ", n_vocab, " rows");
    }
    for (int64_t i = n; i < n_vocab; ++i) {
        out.tokens.push_back(concat("[PAD", i, "]"));
        out.types.push_back(TokenType::unused);
        out.scores.push_back(0);
    }
}

} // namespace buoy
