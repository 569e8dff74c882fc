#include "analysis/pickle.h"

#include "buoy/message.h"

namespace buoy::analysis {

// The opcodes are those of Python's pickletools; arrays are what numpy's own __reduce__ gives.

void PickleWriter::begin() { put(std::string("\x80\x03", 2)); }

void PickleWriter::end() { put("."); }

void PickleWriter::count(uint64_t n) {
    if (n > UINT32_MAX) {
        fail("an array or a text of ", n, " bytes does not fit a pickle of this kind (4 GiB)");
    }
    std::string out(4, '\0');
    for (size_t i = 0; i < 4; i++) {
        out[i] = static_cast<char>(n >> (8 * i) & 0xff);
    }
    put(out);
}

void PickleWriter::integer(int32_t value) {
    put("J");
    count(static_cast<uint32_t>(value));
}

void PickleWriter::text(const std::string & utf8) {
    put("X");
    count(utf8.size());
    put(utf8);
}

void PickleWriter::begin_dictionary() { put("}("); }

void PickleWriter::end_dictionary() { put("u"); }

void PickleWriter::begin_array(const std::vector<size_t> & shape) {
    // _reconstruct(ndarray, (0,), b"b"), then its state: (1, shape, dtype, in Fortran order, data)
    put("cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n");
    put(std::string("K\x00\x85"
                    "C\x01"
                    "b\x87R",
                    8));
    put("(K\x01(");
    for (size_t extent : shape) {
        integer(static_cast<int32_t>(extent));
    }
    put("t");
}

void PickleWriter::dtype(const std::string & name, const std::string & order, uint8_t flags) {
    put("cnumpy\ndtype\n");
    text(name);
    put("\x89\x88\x87R(K\x03");
    text(order);
    put("NNN");
    integer(-1);
    integer(-1);
    put(std::string("K") + static_cast<char>(flags));
    put("tb\x89"); // not in Fortran order
}

void PickleWriter::bytes(const void * data, size_t size) {
    put("B");
    count(size);
    sink_(data, size);
}

void PickleWriter::begin_objects(size_t n) {
    begin_array({n});
    dtype("O8", "|", 63);
    put("](");
}

void PickleWriter::end_objects() { put("etb"); }

void PickleWriter::array(const std::vector<size_t> & shape, const std::vector<float> & values) {
    begin_array(shape);
    dtype("f4", "<", 0);
    bytes(values.data(), values.size() * sizeof(float));
    put("tb");
}

void PickleWriter::array(const std::vector<size_t> & shape, const std::vector<int32_t> & values) {
    begin_array(shape);
    dtype("i4", "<", 0);
    bytes(values.data(), values.size() * sizeof(int32_t));
    put("tb");
}

} // namespace buoy::analysis
