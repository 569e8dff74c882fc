#include "io/gguf-file.h"

#include "buoy/message.h"

#include <cstdio>
#include <unordered_map>

namespace buoy {

struct GgufFile::Impl {
    std::vector<std::string>                paths;
    std::vector<MappedFile>                 files;
    uint64_t                                size = 0;
    GgufHeader                              first;
    std::vector<GgufTensor>                 tensors;
    std::unordered_map<std::string, size_t> tensor_index;

    void add_tensors(std::vector<GgufTensor> added);
    void add_siblings(const std::vector<std::string> & sibling_paths);
};

namespace {

constexpr const char * key_split_no      = "split.no";
constexpr const char * key_split_count   = "split.count";
constexpr const char * key_split_tensors = "split.tensors.count";

constexpr int64_t split_count_max = 65535; // the keys are 16 bits wide

// How many files the model has; 1 if it is not split.
int64_t split_count(const GgufValues & values) {
    const int64_t count = values.get_int(key_split_count).value_or(1);
    if (count < 0 || count > split_count_max) {
        values.fail_key(key_split_count, concat("expected at most ", split_count_max, ", found ", count));
    }
    return count == 0 ? 1 : count;
}

int64_t split_index(const GgufValues & values, int64_t count) {
    const auto index = values.get_int(key_split_no);
    if (!index) {
        values.fail_key(key_split_no, concat("missing in one of ", count, " split files"));
    }
    if (*index < 0 || *index >= count) {
        values.fail_key(key_split_no, concat("expected 0 to ", count - 1, ", found ", *index));
    }
    return *index;
}

std::string split_suffix(int64_t index, int64_t count) {
    char text[64];
    std::snprintf(text, sizeof(text), "-%05lld-of-%05lld.gguf", static_cast<long long>(index + 1),
                  static_cast<long long>(count));
    return text;
}

// The paths of all files of the model that the file at path belongs to, found by their names.
std::vector<std::string> split_paths(const std::string & path, int64_t index, int64_t count) {
    const std::string suffix = split_suffix(index, count);
    if (path.size() < suffix.size() || path.compare(path.size() - suffix.size(), suffix.size(), suffix) != 0) {
        fail(printable(path), ": this is file ", index + 1, " of a model split into ", count,
             ", expected a name that ends in ", in_quotes(suffix));
    }
    const std::string        prefix = path.substr(0, path.size() - suffix.size());
    std::vector<std::string> paths;
    for (int64_t i = 0; i < count; ++i) {
        paths.push_back(prefix + split_suffix(i, count));
    }
    return paths;
}

void check_split(const GgufValues & values, int64_t index, int64_t count) {
    const int64_t count_here = split_count(values);
    if (count_here != count) {
        values.fail_key(key_split_count,
                        concat("expected ", count, " as in the other files of the model, found ", count_here));
    }
    const int64_t index_here = split_index(values, count);
    if (index_here != index) {
        values.fail_key(key_split_no, concat("expected ", index, " by the file's name, found ", index_here));
    }
}

} // namespace

void GgufFile::Impl::add_tensors(std::vector<GgufTensor> added) {
    for (GgufTensor & tensor : added) {
        const auto place = tensor_index.emplace(tensor.name, tensors.size());
        if (!place.second) {
            const auto & other = paths[static_cast<size_t>(tensors[place.first->second].file)];
            fail(printable(paths[static_cast<size_t>(tensor.file)]), ": tensor ", in_quotes(tensor.name),
                 ": is also in ", printable(other));
        }
        tensors.push_back(std::move(tensor));
    }
}

void GgufFile::Impl::add_siblings(const std::vector<std::string> & sibling_paths) {
    const auto count = static_cast<int64_t>(sibling_paths.size());
    check_split(first.values, 0, count);
    for (size_t i = 1; i < sibling_paths.size(); ++i) {
        files.push_back(MappedFile::open(sibling_paths[i]));
        paths.push_back(sibling_paths[i]);
        size += files.back().size();
        GgufHeader header = read_gguf_header(files.back(), static_cast<int>(i));
        check_split(header.values, static_cast<int64_t>(i), count);
        add_tensors(std::move(header.tensors));
    }
    const auto n_tensors = first.values.get_int(key_split_tensors);
    if (n_tensors && *n_tensors != static_cast<int64_t>(tensors.size())) {
        first.values.fail_key(key_split_tensors, concat("expected ", *n_tensors, " tensors in all ", count,
                                                        " files, found ", tensors.size()));
    }
}

GgufFile GgufFile::open(const std::string & path) {
    MappedFile               file   = MappedFile::open(path);
    GgufHeader               header = read_gguf_header(file, 0);
    const int64_t            count  = split_count(header.values);
    std::vector<std::string> paths{path};
    if (count > 1) {
        const int64_t index = split_index(header.values, count);
        paths               = split_paths(path, index, count);
        if (index > 0) {
            file   = MappedFile::open(paths[0]);
            header = read_gguf_header(file, 0);
        }
    }

    auto impl = std::make_shared<Impl>(Impl{{paths[0]}, {}, file.size(), std::move(header), {}, {}});
    impl->files.push_back(std::move(file));
    impl->add_tensors(std::move(impl->first.tensors));
    if (count > 1) {
        impl->add_siblings(paths);
    }
    return GgufFile(std::move(impl));
}

const std::vector<std::string> & GgufFile::paths() const { return impl_->paths; }

const MappedFile & GgufFile::file(int index) const { return impl_->files.at(static_cast<size_t>(index)); }

uint64_t GgufFile::size() const { return impl_->size; }

uint32_t GgufFile::version() const { return impl_->first.version; }

uint32_t GgufFile::alignment() const { return impl_->first.alignment; }

std::vector<std::string> GgufFile::keys() const { return impl_->first.values.keys(); }

bool GgufFile::has(const std::string & key) const { return impl_->first.values.find(key) != nullptr; }

bool GgufFile::is_array(const std::string & key) const {
    const GgufValue * value = impl_->first.values.find(key);
    return value != nullptr && value->is_array;
}

std::optional<int64_t> GgufFile::get_int(const std::string & key) const { return impl_->first.values.get_int(key); }

std::optional<double> GgufFile::get_float(const std::string & key) const { return impl_->first.values.get_float(key); }

std::optional<bool> GgufFile::get_bool(const std::string & key) const { return impl_->first.values.get_bool(key); }

std::optional<std::string> GgufFile::get_string(const std::string & key) const {
    return impl_->first.values.get_string(key);
}

std::optional<std::vector<bool>> GgufFile::get_bool_array(const std::string & key) const {
    return impl_->first.values.get_bool_array(key);
}

std::optional<std::vector<int64_t>> GgufFile::get_int_array(const std::string & key) const {
    return impl_->first.values.get_int_array(key);
}

std::optional<std::vector<double>> GgufFile::get_float_array(const std::string & key) const {
    return impl_->first.values.get_float_array(key);
}

std::optional<std::vector<std::string>> GgufFile::get_string_array(const std::string & key) const {
    return impl_->first.values.get_string_array(key);
}

std::optional<uint64_t> GgufFile::array_size(const std::string & key) const {
    return impl_->first.values.array_size(key);
}

int64_t GgufFile::require_int(const std::string & key, int64_t min, int64_t max) const {
    const auto value = get_int(key);
    if (!value) {
        impl_->first.values.fail_key(key, "missing, expected an integer");
    }
    if (*value < min || *value > max) {
        impl_->first.values.fail_key(key, concat("expected ", min, " to ", max, ", found ", *value));
    }
    return *value;
}

double GgufFile::require_float(const std::string & key) const {
    const auto value = get_float(key);
    if (!value) {
        impl_->first.values.fail_key(key, "missing, expected a floating-point number");
    }
    return *value;
}

std::string GgufFile::require_string(const std::string & key) const {
    auto value = get_string(key);
    if (!value) {
        impl_->first.values.fail_key(key, "missing, expected a string");
    }
    return std::move(*value);
}

const std::vector<GgufTensor> & GgufFile::tensors() const { return impl_->tensors; }

const GgufTensor * GgufFile::find_tensor(const std::string & name) const {
    const auto found = impl_->tensor_index.find(name);
    return found == impl_->tensor_index.end() ? nullptr : &impl_->tensors[found->second];
}

void GgufFile::check_size() const {
    for (const MappedFile & file : impl_->files) {
        file.check_size();
    }
}

} // namespace buoy
