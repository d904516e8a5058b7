#include "serve/page.h"

#ifdef SEEKLINE_PAGE
asm(".pushsection .rodata\n"
    ".global seekline_page_begin\n"
    "seekline_page_begin:\n"
    ".incbin \"" SEEKLINE_PAGE
    "\"\n"
    ".global seekline_page_end\n"
    "seekline_page_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" const char seekline_page_begin[];
extern "C" const char seekline_page_end[];
#endif

namespace seekline::serve {

std::string_view chat_page() {
#ifdef SEEKLINE_PAGE
  return {seekline_page_begin, static_cast<std::size_t>(seekline_page_end - seekline_page_begin)};
#else
  return {};
#endif
}

}  // namespace seekline::serve
