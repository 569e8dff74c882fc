// llama-rpc-server is upstream's and begins as our programs do: it writes clients' data to sockets and to its cache.
#include "../examples/common/standard-streams.h"

int upstream_main(int argc, char ** argv);

int main(int argc, char ** argv) {
    open_standard_streams();
    return upstream_main(argc, argv);
}
