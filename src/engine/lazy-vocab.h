#pragma once

#include "buoy/model.h"

#include <mutex>
#include <optional>

namespace buoy {

// A model's vocabulary, read when somebody first asks: who only wants numbers may have a file without one.
class LazyVocab {
public:
    explicit LazyVocab(ModelFile file) : file_(std::move(file)) {}

    const Vocab & get() const {
        std::call_once(once_, [this] { vocab_ = file_.vocab(); });
        return *vocab_;
    }

private:
    ModelFile                    file_;
    mutable std::once_flag       once_;
    mutable std::optional<Vocab> vocab_;
};

} // namespace buoy
