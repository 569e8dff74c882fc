#pragma once

#include <string>

namespace buoy::test {

// For a test case that returns because this machine lacks what it needs. CTest then says "skipped" for the whole file, whose other cases
// ran: a case that is skipped often gets a file of its own.
void skip(const std::string & why);

bool was_skipped();

} // namespace buoy::test
