// The page at `/`: one self-contained file, page/index.html of this folder, that the build puts into the
// program.
#pragma once

#include <string_view>

namespace seekline::serve {

/// Empty where the program was built without one.
std::string_view chat_page();

}  // namespace seekline::serve
