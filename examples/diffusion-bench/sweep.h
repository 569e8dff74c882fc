#pragma once

#include "buoy/context.h"
#include "buoy/generate.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// One row of the table: everything that is set for it.
struct Case {
    std::vector<std::string> values; // as typed, one for each of parameters()

    std::vector<std::string> rpc; // servers whose devices the model may use

    std::string          model_path;
    buoy::ModelParams    model;
    buoy::ContextParams  context;
    buoy::GenerateParams generate;
    int32_t              n_prompt       = 0;
    int32_t              n_parallel     = 1; // texts generated together
    int32_t              forward_tokens = 0; // > 0: one pass over so many tokens instead of a generation
    int32_t              forward_rows   = 0; // rows of it that are asked for; 0: all

    std::optional<buoy::TapReduce> attn; // record patterns of every layer and step, reduced so; none: record nothing
};

// What can be swept: its column, flag, default and meaning, in one place.
struct Parameter {
    enum class Use { always, generation, forward };

    const char * column;
    const char * flags; // as FlagTable wants them
    const char * type;
    const char * values; // default, comma-separated like the flag; "" for none
    const char * help;
    Use          use;
    void (*apply)(Case & one, const std::string & value);
    const char * env      = "";    // environment variable, read where the command line does not say
    const char * setting  = "";    // what the library calls it
    bool         is_basic = false; // says what was run: in the table even where it is the same for all rows
};

const std::vector<Parameter> & parameters();

size_t parameter_index(const std::string & column);

// Every combination of the values on top of what the first case has, the last parameter fastest. A parameter without values is not
// applied.
std::vector<Case> expand(const std::vector<std::vector<std::string>> & values, const Case & first);
