#include "benchmarks/floor/shard_stream.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/compression/unpacker.h"
#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& path, ErrorCode code, const std::string& message) {
  throw ErrorException({.code = code, .message = message, .shard = path});
}

}  // namespace

OpenShard::OpenShard(std::string path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(path_, ErrorCode::kIo, fmt::format("cannot open the file: {}", std::strerror(errno)));
}

OpenShard::~OpenShard() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t OpenShard::read(uint64_t offset, std::span<std::byte> destination) const {
  size_t done = 0;
  while (done < destination.size()) {
    const ssize_t count =
        ::pread(descriptor_, destination.data() + done, destination.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, ErrorCode::kIo, fmt::format("cannot read the file: {}", std::strerror(errno)));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

struct UnpackedShard::State {
  explicit State(Compression compression) : unpacker(compression) {}

  Unpacker unpacker;
  std::array<std::byte, 64 << 10> input;
  size_t begin = 0;  // of what is not unpacked
  size_t end = 0;
  uint64_t offset = 0;  // in the file, of what follows
};

void UnpackedShard::Delete::operator()(State* state) const { delete state; }

void UnpackedShard::read(const OpenShard& file, Compression compression, std::span<std::byte> destination) {
  if (!state_) state_.reset(new State(compression));
  State& state = *state_;
  while (!destination.empty()) {
    const UnpackResult result =
        state.unpacker.run(std::span(state.input).subspan(state.begin, state.end - state.begin), destination);
    state.begin += result.num_read;
    destination = destination.subspan(result.num_written);
    if (result.status == UnpackResult::Status::kError) throw ErrorException(state.unpacker.error());
    if (destination.empty() || result.status == UnpackResult::Status::kOutputFull) continue;
    state.begin = 0;
    state.end = file.read(state.offset, state.input);
    state.offset += state.end;
    if (state.end == 0) fail(file.path(), ErrorCode::kTruncated, "the file ends before the record that was there");
  }
}

std::string_view checked_payload(const std::byte* frame, const ScheduledRecord& expected, const std::string& path) {
  const auto length = load_frame_field<uint64_t>(frame);
  const auto length_crc = load_frame_field<uint32_t>(frame + sizeof(uint64_t));
  if (masked_crc32c_of_length(length) != length_crc || length != expected.bytes) [[unlikely]] {
    fail(path, ErrorCode::kLengthCrc, "the record has changed since the order was found");
  }
  const std::string_view payload(reinterpret_cast<const char*>(frame) + kFrameHeaderBytes, length);
  if (masked_crc32c(payload) != load_frame_field<uint32_t>(payload.data() + length)) [[unlikely]] {
    fail(path, ErrorCode::kPayloadCrc, "the record has changed since the order was found");
  }
  return payload;
}

}  // namespace millrace
