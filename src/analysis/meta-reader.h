#pragma once

#include "buoy/record.h"
#include "io/npz-reader.h"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <string>
#include <vector>

namespace buoy::analysis {

// meta.json of a recording; few members an object.
nlohmann::json read_meta_json(const NpzReader & file, const NpzMember & member);

// Values of a recording's meta.json by their path; an Error where one is missing or of another type.
class MetaReader {
public:
    using Keys = std::initializer_list<const char *>;

    MetaReader(const nlohmann::json & json, std::string where) : json_(json), where_(std::move(where)) {}

    const std::string & where() const { return where_; }
    std::string         name(Keys keys) const; // recorded.layers

    bool                     has(Keys keys) const; // and not null
    std::string              text(Keys keys) const;
    bool                     boolean(Keys keys) const;
    int32_t                  integer(Keys keys) const;
    size_t                   count(Keys keys) const; // an integer that is not negative
    std::vector<int32_t>     integers(Keys keys) const;
    std::vector<std::string> texts(Keys keys) const;

    std::vector<Region> regions(size_t n_positions) const;

private:
    const nlohmann::json * find(Keys keys) const;
    const nlohmann::json & get(Keys keys) const;
    [[noreturn]] void      wrong(Keys keys, const char * expected) const;

    const nlohmann::json & json_;
    std::string            where_;
};

} // namespace buoy::analysis
