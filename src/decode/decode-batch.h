#pragma once

#include "decode/decoder.h"

#include <exception>

namespace buoy {

// Sequences that are generated side by side. Whoever drives it lets new ones in between passes; each pass computes the next step of all
// that run, and one that ends leaves its place.
class DecodeBatch {
public:
    enum class Reuse {
        nothing,
        prefixes, // a place keeps what is stored there, for a later prompt that begins like it
    };

    // A sequence that does not run any more.
    struct Ended {
        size_t             id = 0;
        Generation         generation;
        std::exception_ptr error; // what it failed with
    };

    // Uses all sequences of the context; nobody else may meanwhile.
    DecodeBatch(Context & context, Reuse reuse);

    bool   has_room(const GenerateParams & params) const; // there are as many places as it needs
    size_t size() const { return running_.size(); }

    // Positions from the beginning that no later step of a running sequence changes.
    int32_t n_final(size_t id) const;

    // id: of its end. Throws Error where settings or prompt can't be carried out.
    void start(size_t id, const std::vector<int32_t> & prompt, const GenerateParams & params);

    // The next pass of each sequence. One whose passes are observed or edited (on_forward) has them alone: whatever goes wrong there
    // ends no other. Returns those that ended.
    std::vector<Ended> step();

private:
    struct Place {
        std::vector<int32_t> stored; // tokens whose K/V are exact
        bool                 in_use = false;
    };

    struct Running {
        size_t                   id;
        DecoderPlace             place;
        bool                     alone;
        std::unique_ptr<Decoder> decoder;
        size_t                   request = 0; // of the pass, that is its first
        std::exception_ptr       error;
    };

    int32_t      take_place(const std::vector<int32_t> & prompt); // the one that has most of it stored
    DecoderPlace take_places(const std::vector<int32_t> & prompt, const GenerateParams & params);
    void         give_back(const DecoderPlace & place, std::vector<int32_t> stored);
    void         compute(const std::vector<ForwardRequest> & batch, std::span<Running * const> group);

    Context &            context_;
    Reuse                reuse_;
    std::vector<Place>   places_; // one for each sequence of the context
    std::vector<Running> running_;
};

} // namespace buoy
