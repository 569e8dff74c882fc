#pragma once

namespace buoy {

int convert_command(int argc, char ** argv);
int imatrix_command(int argc, char ** argv);
int loss_command(int argc, char ** argv);

} // namespace buoy
