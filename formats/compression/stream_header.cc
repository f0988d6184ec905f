#include "millrace/formats/compression/stream_header.h"

#include <utility>

#include <fmt/format.h>
#include <zlib.h>

namespace millrace {
namespace {

constexpr uint8_t kFlagHeaderCrc = 2;
constexpr uint8_t kFlagExtra = 4;
constexpr uint8_t kFlagName = 8;
constexpr uint8_t kFlagComment = 16;
constexpr uint8_t kFlagsReserved = 0xe0;

}  // namespace

void StreamHeader::begin() {
  part_ = Part::kFixed;
  num_fixed_ = 0;
  flags_ = 0;
  crc_ = static_cast<uint32_t>(crc32(0, nullptr, 0));
}

StreamHeader::Step StreamHeader::refuse(std::string problem) {
  problem_ = std::move(problem);
  return Step::kNoHeader;
}

StreamHeader::Step StreamHeader::take(uint8_t byte) {
  if (!is_gzip_) return take_zlib(byte);
  if (part_ < Part::kCrc) crc_ = static_cast<uint32_t>(crc32(crc_, &byte, 1));
  switch (part_) {
    case Part::kFixed: return take_gzip(byte);
    case Part::kExtraLength:
      fixed_[num_fixed_++] = byte;
      if (num_fixed_ < 2) return Step::kMore;
      num_extra_ = two_bytes();
      part_ = Part::kExtra;
      return num_extra_ == 0 ? next_part() : Step::kMore;
    case Part::kExtra: return --num_extra_ == 0 ? next_part() : Step::kMore;
    case Part::kName:
    case Part::kComment: return byte == 0 ? next_part() : Step::kMore;
    case Part::kCrc: break;
  }
  fixed_[num_fixed_++] = byte;
  if (num_fixed_ < 2) return Step::kMore;
  if (two_bytes() == (crc_ & 0xffff)) return Step::kDone;
  problem_ = fmt::format("has the CRC {:04x}, its field says {:04x}", crc_ & 0xffff, two_bytes());
  return Step::kBadCrc;
}

StreamHeader::Step StreamHeader::take_gzip(uint8_t byte) {
  fixed_[num_fixed_++] = byte;
  if (num_fixed_ == 1 && byte != 0x1f) return refuse(fmt::format("it begins with {:02x}, expected 1f 8b", byte));
  if (num_fixed_ == 2 && byte != 0x8b) return refuse(fmt::format("it begins with 1f {:02x}, expected 1f 8b", byte));
  if (num_fixed_ == 3 && byte != 8) return refuse(fmt::format("compression method {}, only 8 is defined", byte));
  if (num_fixed_ == 4 && (byte & kFlagsReserved) != 0) {
    return refuse(fmt::format("reserved flags are set in {:02x}", byte));
  }
  if (num_fixed_ < 10) return Step::kMore;  // time, extra flags and operating system mean nothing here
  flags_ = fixed_[3];
  return next_part();
}

StreamHeader::Step StreamHeader::take_zlib(uint8_t byte) {
  fixed_[num_fixed_++] = byte;
  if (num_fixed_ == 1) {
    if ((byte & 0x0f) == 8 && (byte >> 4) <= 7) return Step::kMore;
    return refuse(fmt::format("its first byte {:02x} names no deflate data with a window up to 32 KiB", byte));
  }
  if ((fixed_[0] * 256 + byte) % 31 != 0) {
    return refuse(fmt::format("the check bits of its header {:02x} {:02x} are wrong", fixed_[0], byte));
  }
  if ((byte & 0x20) != 0) return refuse("it needs a preset dictionary");
  return Step::kDone;
}

// Goes on to the first part after `part_` that the flags announce, else to the data.
StreamHeader::Step StreamHeader::next_part() {
  num_fixed_ = 0;
  const auto announced = [this](Part candidate, uint8_t flag) {
    if (part_ >= candidate || (flags_ & flag) == 0) return false;
    part_ = candidate;
    return true;
  };
  const bool goes_on = announced(Part::kExtraLength, kFlagExtra) || announced(Part::kName, kFlagName) ||
                       announced(Part::kComment, kFlagComment) || announced(Part::kCrc, kFlagHeaderCrc);
  return goes_on ? Step::kMore : Step::kDone;
}

}  // namespace millrace
