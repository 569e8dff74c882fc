// .npz archives, stored and deflated: what is opened can be read whole or says why not.

#include "mutate.h"
#include "target.h"

#include "io/npz-reader.h"
#include "io/npz-writer.h"
#include "support/hf-dir.h"
#include "support/zip-bytes.h"

namespace buoy::fuzz {

namespace {

std::vector<std::string> seeds() {
    const std::string array = npy_header(NpyType::f4, {2, 5}) + std::string(40, '\x11');
    const std::string ints  = npy_header(NpyType::i4, {3}) + std::string(12, '\x02');
    const std::string path  = scratch_dir() + "/seed.npz";
    PendingFile       file(path, true);
    NpzWriter         npz(file);
    npz.add("meta.json", "{}");
    npz.add("a/b.npy", array);
    npz.add("c.npy", ints);
    npz.finish();
    file.commit();
    return {test::read_file(path),
            test::zip_bytes({{"meta.json", "{}", {}}, {"a/b.npy", array, {}}, {"c.npy", ints, {}}})};
}

void run(const std::string & input) {
    const NpzReader reader = NpzReader::open(scratch_file("fuzz.npz", input));
    for (const NpzMember & member : reader.members()) {
        NpyHeader header;
        size_t    n = 0;
        demand(member.end <= reader.size(), "a member lies in its file");
        const bool floats = answered([&] { n = reader.read_floats(member, header).size(); });
        demand(!floats || n == header.n_elements(), "an array has as many numbers as its header says");
        const bool ints = answered([&] { n = reader.read_ints(member, header).size(); });
        demand(!ints || n == header.n_elements(), "an array has as many numbers as its header says");
        demand(floats || !ints, "what can be read as integers can be read as numbers");
        answered([&] { reader.read_text(member); });
    }
}

} // namespace

Target npz_target() { return {"npz", seeds, run, mutate_bytes}; }

} // namespace buoy::fuzz
