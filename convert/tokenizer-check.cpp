#include "tokenizer-check.h"

#include "buoy/message.h"
#include "buoy/vocab.h"
#include "hf-encoder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace buoy {

namespace {

constexpr const char * SAMPLE[] = {
    "Hello world, it's 2024! We'll see: DON'T they've I'm you'd",
    "  two  spaces   three\tand a tab \n\nline ends\r\n   indented",
    "x = foo(bar[12345], 3.14159) != \"a\\n\"; // ok?!",
    "na\xc3\xafve caf\xc3\xa9 \xc3\x9c"
    "ber stra\xc3\x9f"
    "e",
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 \xd0\xbc\xd0\xb8\xd1\x80",
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c\xe3\x80\x82 \xe3\x81\x93\xe3\x82\x93\xe3\x81\xab",
    "\xf0\x9f\x98\x80 \xe2\x82\xac"
    "100 \xc2\xbd \xe2\x80\x94 \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7",
    " ",
    "a",
    "...",
    "100000",
};

// The keys alone as a file, for as long as the tokenizer is looked at.
class VocabFile {
public:
    explicit VocabFile(const GgufWriter & header) {
        std::error_code error;
        path_        = (std::filesystem::temp_directory_path(error) / "buoy-vocab-XXXXXX").string();
        const int fd = error ? -1 : mkstemp(path_.data());
        if (fd < 0) {
            fail_runtime(printable(path_), ": can't create a temporary file to check the tokenizer");
        }
        const std::vector<char> bytes = header.bytes();
        size_t                  done  = 0;
        while (done < bytes.size()) {
            const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
            if (n <= 0) {
                break;
            }
            done += static_cast<size_t>(n);
        }
        close(fd);
        if (done < bytes.size()) {
            unlink(path_.c_str());
            fail_runtime(printable(path_), ": can't write");
        }
    }
    ~VocabFile() { unlink(path_.c_str()); }
    VocabFile(const VocabFile &)             = delete;
    VocabFile & operator=(const VocabFile &) = delete;

    const std::string & path() const { return path_; }

private:
    std::string path_;
};

std::string listed(const std::vector<int32_t> & ids) {
    std::string out;
    for (const int32_t id : ids) {
        out += concat(out.empty() ? "" : " ", id);
    }
    return out;
}

} // namespace

void check_tokenizer(const HfJson & tokenizer, const GgufWriter & header) {
    const HfEncoder encoder(tokenizer);
    const VocabFile file(header);
    const Vocab     vocab = Vocab::load(file.path());
    for (const char * text : SAMPLE) {
        const std::vector<int32_t> expected = encoder.encode(text);
        const std::vector<int32_t> found    = vocab.encode(text, false, false);
        const bool                 complete = std::find(expected.begin(), expected.end(), -1) == expected.end();
        if (complete && expected != found) {
            fail(tokenizer.path(), ": its rules make ", in_quotes(text), " into ", listed(expected),
                 ", the converted tokenizer into ", listed(found), "; nothing was written");
        }
    }
}

} // namespace buoy
