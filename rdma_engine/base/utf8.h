// Text in UTF-8. Python raises an error of its own for a message that is none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace jaxina {

// Returns the longest start of the text that has at most `bytes` bytes and does not end within a character.
std::string_view start_of(std::string_view text, std::size_t bytes);

// Returns the text with a question mark for each byte that is not part of a character.
std::string as_utf8(std::string_view text);

}  // namespace jaxina
