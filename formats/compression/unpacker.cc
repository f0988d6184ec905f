#include "millrace/formats/compression/unpacker.h"

#include <utility>

namespace millrace {
namespace {

using Either = std::variant<Inflater, ZstdUnpacker>;

}  // namespace

Unpacker::Unpacker(Compression compression, std::shared_ptr<const FrameTable> frames, InflateEngine engine)
    : unpacker_(compression == Compression::kZstd ? Either(ZstdUnpacker(std::move(frames)))
                                                  : Either(Inflater(compression, engine))) {}

Unpacker::Unpacker(Compression compression, const SeekPoint& point, std::shared_ptr<const FrameTable> frames)
    : unpacker_(compression == Compression::kZstd ? Either(ZstdUnpacker(point, std::move(frames)))
                                                  : Either(Inflater(compression, point))) {}

UnpackResult Unpacker::run(std::span<const std::byte> input, std::span<std::byte> output) {
  return std::visit([&](auto& unpacker) { return unpacker.run(input, output); }, unpacker_);
}

bool Unpacker::pass_bad_trailer() {
  Inflater* const inflater = std::get_if<Inflater>(&unpacker_);
  return inflater != nullptr && inflater->pass_bad_trailer();
}

void Unpacker::find_seek_points(uint64_t distance) {
  if (Inflater* const inflater = std::get_if<Inflater>(&unpacker_)) {
    inflater->find_seek_points(distance);
  } else {
    std::get<ZstdUnpacker>(unpacker_).find_seek_points();
  }
}

std::vector<SeekPoint> Unpacker::take_seek_points() {
  return std::visit([](auto& unpacker) { return unpacker.take_seek_points(); }, unpacker_);
}

bool Unpacker::finish() {
  return std::visit([](auto& unpacker) { return unpacker.finish(); }, unpacker_);
}

const Error& Unpacker::error() const {
  return std::visit([](const auto& unpacker) -> const Error& { return unpacker.error(); }, unpacker_);
}

uint64_t Unpacker::stream_begin() const {
  const ZstdUnpacker* const zstd = std::get_if<ZstdUnpacker>(&unpacker_);
  return zstd != nullptr ? zstd->frame_begin() : 0;
}

}  // namespace millrace
