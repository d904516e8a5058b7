// The formats, one file each; chat_format() finds them by name.
#pragma once

#include <string_view>

#include "text/chat.h"

namespace seekline::chat {

const ChatFormat& deepseek_v41();
const ChatFormat& deepseek_v4();          ///< the -0731 release and later
const ChatFormat& deepseek_v4_preview();  ///< the first release: an effort text for max only
const ChatFormat& deepseek_v32();
const ChatFormat& deepseek_v3();  ///< V3, V2.5
const ChatFormat& deepseek_v2();
const ChatFormat& chatml();

}  // namespace seekline::chat
