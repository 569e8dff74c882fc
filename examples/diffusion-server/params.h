#pragma once

#include "buoy/serve.h"
#include "run-flags.h"

#include <string>
#include <vector>

struct ServerParams : RunParams {
    buoy::serve::ServeParams serve;  // but for what RunParams has
    std::vector<std::string> models; // paths or names; none: the bundled ones
    int32_t                  n_parallel = 4;
    std::vector<std::string> key_files;
    bool                     verbose = false;
    std::string              log_file;
};

void add_server_flags(FlagTable & table, ServerParams & params);

// What several flags decide together; reads the files of keys.
void settle_server(ServerParams & params);
