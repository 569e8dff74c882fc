#include "commands.h"

#include <string>

int main(int argc, char ** argv) {
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "imatrix") {
        return buoy::imatrix_command(argc - 1, argv + 1);
    }
    if (command == "loss") {
        return buoy::loss_command(argc - 1, argv + 1);
    }
    return buoy::convert_command(argc, argv);
}
