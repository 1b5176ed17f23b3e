#include "rdma_engine/base/utf8.h"

#include <algorithm>
#include <cstdint>

namespace jaxina {
namespace {

bool continues(char byte) { return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80; }

// Returns how many bytes the text's first character has, or 0 if the text begins with none.
std::size_t first_character(std::string_view text) {
  const auto lead = static_cast<std::uint8_t>(text.front());
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size || !std::all_of(&text[1], text.data() + size, continues)) return 0;
  const auto next = static_cast<std::uint8_t>(text[1]);
  switch (lead) {  // these have longer forms of shorter characters, surrogates, or numbers above the largest
    case 0xE0: return next >= 0xA0 ? size : 0;
    case 0xED: return next < 0xA0 ? size : 0;
    case 0xF0: return next >= 0x90 ? size : 0;
    case 0xF4: return next < 0x90 ? size : 0;
    default: return size;
  }
}

}  // namespace

std::string_view start_of(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && continues(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string as_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = first_character(text);
    result += size > 0 ? text.substr(0, size) : "?";
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

}  // namespace jaxina
