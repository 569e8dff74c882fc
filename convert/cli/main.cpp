#include "commands.h"

int main(int argc, char ** argv) {
    Program program("llama-diffusion-convert", "Converts checkpoints to GGUF and quantises them.",
                    Program::Interrupt::asked);
    program.usage = "  llama-diffusion-convert INPUT -o OUTPUT [flags]\n"
                    "  llama-diffusion-convert imatrix -m MODEL -f TEXT -o FILE [flags]\n"
                    "  llama-diffusion-convert loss -m MODEL -f TEXT [flags]\n";
    add_convert_command(program);
    add_calibrate_commands(program);
    return program.main(argc, argv);
}
