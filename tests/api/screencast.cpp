// A text of three tokens, written in two steps, as an animated picture.
#include "buoy/screencast.h"
#include "buoy/files.h"

#include <string>

void example_screencast(const std::string & dir) {
    using buoy::figure::TokenState;

    buoy::figure::Screencast cast;
    cast.command = "my-program --story";
    cast.frames  = {
         {{{"Once", TokenState::fresh}, {"", TokenState::masked}, {"", TokenState::masked}}, "step 1"},
         {{{"Once", TokenState::settled}, {" upon", TokenState::fresh}, {" a", TokenState::fresh}}, "step 2"}};
    for (const std::string name : {"story.gif", "story.svg", "story.cast"}) {
        const std::string path = dir + "/" + name;
        buoy::write_file(path, render_screencast(cast, buoy::figure::screencast_format(path)), true);
    }
}
