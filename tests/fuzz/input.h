// Draws small numbers from a fuzzer's bytes. When the bytes are used up, all numbers are zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jaxina::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  std::uint8_t byte() { return left_ > 0 ? --left_, *data_++ : 0; }
  std::uint32_t below(std::uint32_t n) { return byte() % n; }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

// Ends the process if the condition does not hold; the fuzzer reports that.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace jaxina::fuzz
