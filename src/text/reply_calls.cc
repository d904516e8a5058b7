#include "text/reply_calls.h"

#include <algorithm>

namespace seekline::reply {

void MarkedText::append(std::string_view more, bool may_be_marker) {
  text += more;
  marks.append(more.size(), may_be_marker ? '\1' : '\0');
}

void MarkedText::append(const MarkedText& more, std::size_t from) {
  text.append(more.text, from);
  marks.append(more.marks, from);
}

void MarkedText::drop_front(std::size_t bytes) {
  text.erase(0, bytes);
  marks.erase(0, bytes);
}

Match match(const MarkedText& text, std::size_t at, const Tag& tag) {
  const std::size_t bytes = std::min(tag.text.size(), text.size() - at);
  if (text.text.compare(at, bytes, tag.text, 0, bytes) != 0) return Match::kNo;
  const std::size_t marker_end = std::min(bytes, tag.marker_at + tag.marker_size);
  for (std::size_t i = tag.marker_at; i < marker_end; ++i)
    if (text.marks[at + i] == '\0') return Match::kNo;
  return bytes == tag.text.size() ? Match::kYes : Match::kPartial;
}

Tag dsml_tag(std::string_view before, std::string_view after) {
  Tag tag;
  tag.text = before;
  tag.marker_at = before.size();
  tag.marker_size = kDsmlMarker.size();
  tag.text += kDsmlMarker;
  tag.text += after;
  return tag;
}

}  // namespace seekline::reply
