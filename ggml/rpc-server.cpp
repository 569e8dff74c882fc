// llama-rpc-server is upstream's and begins as our programs do: it writes clients' data to sockets and to its cache. Whoever starts it reads
// what that means.
#include "../examples/common/standard-streams.h"

#include <cstdio>
#include <cstring>

int upstream_main(int argc, char ** argv);

int main(int argc, char ** argv) {
    open_standard_streams();
    bool asks = false;
    for (int i = 1; i < argc; i++) {
        asks = asks || std::strcmp(argv[i], "-h") == 0 || std::strcmp(argv[i], "--help") == 0;
    }
    if (!asks) {
        std::fputs(
            "llama-rpc-server: it has no password and no encryption, and trusts what it is sent: whoever reaches its "
            "port can "
            "read what it computes and may run code as you. It listens on this machine only, unless -H says otherwise; "
            "give that an address of a private network, or use a tunnel.\n",
            stderr);
    }
    return upstream_main(argc, argv);
}
