#include "imatrix.h"

#include "buoy/message.h"
#include "io/gguf-file.h"
#include "io/gguf-writer.h"
#include "io/mapped-file.h"
#include "io/pending-file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

namespace buoy {

namespace {

const std::string SUFFIX_SQUARES = ".in_sum2";
const std::string SUFFIX_COUNTS  = ".counts";

bool ends_with(const std::string & text, const std::string & suffix) {
    return text.size() > suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::vector<float> read_tensor(const GgufFile & file, const GgufTensor & tensor) {
    if (tensor.type != GGML_TYPE_F32) {
        fail(printable(file.paths().front()), ": tensor ", in_quotes(tensor.name), " is ", ggml_type_name(tensor.type),
             ", an importance matrix has f32");
    }
    std::vector<float> values(static_cast<size_t>(tensor.size / sizeof(float)));
    file.file(tensor.file).read(tensor.offset, values.data(), static_cast<size_t>(tensor.size));
    return values;
}

// Bytes of the older format, one after the other.
class DatReader {
public:
    explicit DatReader(const std::string & path) : file_(MappedFile::open(path)) {}

    int32_t number() {
        int32_t value = 0;
        take(&value, sizeof(value));
        return value;
    }

    void take(void * out, uint64_t size) {
        if (size > file_.size() - at_) {
            fail(printable(file_.path()), ": ends at byte ", file_.size(), ", not an importance matrix");
        }
        file_.read(at_, out, static_cast<size_t>(size));
        at_ += size;
    }

    // A count of things that take `each` bytes.
    size_t count(const char * what, uint64_t each) {
        const int32_t n = number();
        if (n < 1 || static_cast<uint64_t>(n) > (file_.size() - at_) / each) {
            fail(printable(file_.path()), ": ", n, " ", what, " in ", file_.size(), " bytes, not an importance matrix");
        }
        return static_cast<size_t>(n);
    }

private:
    MappedFile file_;
    uint64_t   at_ = 0;
};

} // namespace

Imatrix Imatrix::load(const std::string & path) {
    Imatrix          matrix;
    const MappedFile file     = MappedFile::open(path);
    char             magic[4] = {};
    file.read(0, magic, std::min<size_t>(sizeof(magic), static_cast<size_t>(file.size())));
    matrix.path_ = path;
    if (std::memcmp(magic, "GGUF", sizeof(magic)) == 0) {
        matrix.load_gguf(path);
    } else {
        matrix.load_dat(path);
    }
    matrix.check();
    return matrix;
}

void Imatrix::load_gguf(const std::string & path) {
    const GgufFile file = GgufFile::open(path);
    for (const GgufTensor & tensor : file.tensors()) {
        if (!ends_with(tensor.name, SUFFIX_SQUARES)) {
            continue;
        }
        const std::string  name   = tensor.name.substr(0, tensor.name.size() - SUFFIX_SQUARES.size());
        const GgufTensor * counts = file.find_tensor(name + SUFFIX_COUNTS);
        if (counts == nullptr) {
            fail(printable(path), ": no ", in_quotes(name + SUFFIX_COUNTS), " beside ", in_quotes(tensor.name));
        }
        std::vector<float>       sums  = read_tensor(file, tensor);
        const std::vector<float> seen  = read_tensor(file, *counts);
        const size_t             width = seen.empty() ? 0 : sums.size() / seen.size();
        if (width == 0 || width * seen.size() != sums.size()) {
            fail(printable(path), ": ", in_quotes(name), " has ", sums.size(), " sums and ", seen.size(), " counts");
        }
        for (size_t i = 0; i < sums.size(); ++i) {
            const float count = std::round(seen[i / width]);
            sums[i]           = count > 0 ? sums[i] / count : 1.0F; // an expert nobody asked
        }
        values_.emplace(name, std::move(sums));
    }
    if (values_.empty()) {
        fail(printable(path), ": no tensors that end in ", SUFFIX_SQUARES, ", not an importance matrix");
    }
    datasets_ = file.get_string_array("imatrix.datasets").value_or(std::vector<std::string>());
    n_chunks_ = file.get_int("imatrix.chunk_count").value_or(0);
}

void Imatrix::load_dat(const std::string & path) {
    DatReader    reader(path);
    const size_t n_entries = reader.count("entries", 3 * sizeof(int32_t));
    for (size_t i = 0; i < n_entries; ++i) {
        std::string name(reader.count("letters", 1), '\0');
        reader.take(name.data(), name.size());
        const float        n_calls = static_cast<float>(std::max(reader.number(), 1));
        std::vector<float> sums(reader.count("values", sizeof(float)));
        reader.take(sums.data(), sums.size() * sizeof(float));
        for (float & sum : sums) {
            sum /= n_calls;
        }
        values_[name] = std::move(sums);
    }
}

void Imatrix::check() const {
    for (const auto & [name, values] : values_) {
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
            fail(printable(path_), ": ", in_quotes(name), " has values that are NaN or infinite");
        }
    }
}

const float * Imatrix::find(const PlannedTensor & tensor) const {
    const auto found = values_.find(tensor.name);
    if (found == values_.end() || !ggml_is_quantized(tensor.type)) {
        return nullptr;
    }
    const size_t expected = static_cast<size_t>(tensor.n_cols * tensor.n_last);
    if (found->second.size() != expected) {
        if (tensor.name == "token_embd.weight") {
            return nullptr; // tied to the output, which alone was seen
        }
        fail(printable(path_), ": ", in_quotes(tensor.name), " has ", found->second.size(),
             " values, the model's needs ", expected);
    }
    return found->second.data();
}

void save_imatrix(const std::string & path, bool force, const std::unordered_map<std::string, ImatrixSums> & sums,
                  const std::string & dataset, uint32_t n_chunks, uint32_t chunk_size) {
    const std::map<std::string, ImatrixSums> sorted(sums.begin(), sums.end());

    GgufWriter header;
    header.set("general.type", "imatrix");
    header.set("imatrix.datasets", std::vector<std::string>{dataset});
    header.set("imatrix.chunk_count", n_chunks);
    header.set("imatrix.chunk_size", chunk_size);
    for (const auto & [name, entry] : sorted) {
        const auto n_matrix = static_cast<int64_t>(entry.counts.size());
        const auto n_values = static_cast<int64_t>(entry.squares.size());
        header.add_tensor(name + SUFFIX_SQUARES, GGML_TYPE_F32, {n_values / n_matrix, n_matrix});
        header.add_tensor(name + SUFFIX_COUNTS, GGML_TYPE_F32, {1, n_matrix});
    }
    PendingFile             file(path, force);
    const std::vector<char> head = header.bytes();
    file.write(head.data(), head.size());
    for (const auto & item : sorted) {
        for (const std::vector<float> * values : {&item.second.squares, &item.second.counts}) {
            const size_t            size = values->size() * sizeof(float);
            const std::vector<char> padding((GgufWriter::alignment - size % GgufWriter::alignment) %
                                            GgufWriter::alignment);
            file.write(values->data(), size);
            file.write(padding.data(), padding.size());
        }
    }
    file.commit();
}

} // namespace buoy
