#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace buoy::analysis {

// Writes a Python pickle (protocol 3) from front to back: numbers, texts, lists, dictionaries and numpy arrays, no more.
class PickleWriter {
public:
    using Sink = std::function<void(const void * data, size_t size)>;

    explicit PickleWriter(Sink sink) : sink_(std::move(sink)) {}

    void begin();
    void end();

    void integer(int32_t value);
    void text(const std::string & utf8);

    void begin_dictionary(); // then key, value, key, value …
    void end_dictionary();

    // A numpy array of objects in one dimension; n objects follow.
    void begin_objects(size_t n);
    void end_objects();

    void array(const std::vector<size_t> & shape, const std::vector<float> & values);
    void array(const std::vector<size_t> & shape, const std::vector<int32_t> & values);

private:
    void put(const std::string & bytes) { sink_(bytes.data(), bytes.size()); }
    void count(uint64_t n); // of 4 bytes
    void begin_array(const std::vector<size_t> & shape);
    void dtype(const std::string & name, const std::string & order, uint8_t flags);
    void bytes(const void * data, size_t size);

    Sink sink_;
};

} // namespace buoy::analysis
