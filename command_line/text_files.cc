#include "millrace/command_line/text_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/compression/inflate.h"
#include "millrace/formats/error.h"
#include "millrace/formats/text/byte_order_mark.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kChunkBytes = 256 * 1024;
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

[[noreturn]] void fail_io(const std::string& path, std::string_view what, int error) {
  throw ErrorException(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

// An open file, read front to back. Neither opening a pipe nor reading it keeps a signal from ending the program.
class InputFile {
 public:
  InputFile(const std::string& path, std::function<bool()> stop_requested)
      : path_(path),
        stop_requested_(std::move(stop_requested)),
        descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) fail_io(path, "open", errno);
    struct stat status {};
    const int error = ::fstat(descriptor_, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
    if (error != 0) {
      ::close(descriptor_);
      fail_io(path, "read", error);
    }
    size_ = status.st_size;
    is_regular_ = S_ISREG(status.st_mode);
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Fills as much of `bytes` as there is; 0 at the end.
  size_t read(std::span<std::byte> bytes) {
    while (true) {
      if (!is_regular_ && !wait()) return 0;
      const ssize_t count = ::read(descriptor_, bytes.data(), bytes.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR && errno != EAGAIN) fail_io(path_, "read", errno);
    }
  }
  int64_t size() const { return size_; }

 private:
  // Sleeps until a pipe has bytes or all who wrote are gone; one that nobody has opened yet has neither. False when the
  // program is to stop.
  bool wait() const {
    constexpr int kMilliseconds = 100;
    while (!stop_requested_ || !stop_requested_()) {
      pollfd waited_for{.fd = descriptor_, .events = POLLIN, .revents = 0};
      if (::poll(&waited_for, 1, kMilliseconds) > 0) return true;
    }
    return false;
  }

  std::string path_;
  std::function<bool()> stop_requested_;
  int descriptor_;
  int64_t size_ = 0;
  bool is_regular_ = true;
};

// The bytes of a file, unpacked when it is a gzip file.
class UnpackedFile {
 public:
  UnpackedFile(const std::string& path, std::function<bool()> stop_requested)
      : path_(path), file_(path, std::move(stop_requested)), input_(kChunkBytes), output_(kChunkBytes) {
    // A pipe may give its first bytes one by one.
    while (input_end_ < 2) {
      const size_t count = file_.read(std::span(input_).subspan(input_end_));
      if (count == 0) break;
      input_end_ += count;
    }
    num_read_ = static_cast<int64_t>(input_end_);
    if (input_end_ >= 2 && input_[0] == std::byte{0x1f} && input_[1] == std::byte{0x8b}) {
      inflater_.emplace(Compression::kGzip);
    }
  }

  // The next piece, valid until the next call; empty at the end.
  std::string_view next_chunk() {
    if (!inflater_) {
      if (input_end_ == 0) refill();
      return view(input_, std::exchange(input_end_, 0));
    }
    while (true) {
      const Inflater::Result result =
          inflater_->run(std::span(input_).subspan(input_begin_, input_end_ - input_begin_), output_);
      input_begin_ += result.num_read;
      if (result.num_written > 0) return view(output_, result.num_written);
      if (result.status == Inflater::Status::kError) fail_unpacking();
      if (result.status != Inflater::Status::kNeedInput) continue;
      refill();
      if (input_end_ == 0) {
        if (!inflater_->finish()) fail_unpacking();
        return {};
      }
    }
  }

  // Bytes read from the file, still packed.
  int64_t num_read() const { return num_read_; }

 private:
  static std::string_view view(const std::vector<std::byte>& bytes, size_t size) {
    return {reinterpret_cast<const char*>(bytes.data()), size};
  }
  void refill() {
    input_begin_ = 0;
    input_end_ = file_.read(input_);
    num_read_ += static_cast<int64_t>(input_end_);
  }
  [[noreturn]] void fail_unpacking() {
    Error error = inflater_->error();
    error.message = fmt::format("{}: {}", path_, error.message);
    throw ErrorException(error);
  }

  std::string path_;
  InputFile file_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  size_t input_begin_ = 0;
  size_t input_end_ = 0;
  int64_t num_read_ = 0;
  std::optional<Inflater> inflater_;
};

// Bytes of the ill-formed sequence at the beginning of `text`: as much of a character as there is, at least one byte
// (Unicode 15, section 3.9, "U+FFFD Substitution of Maximal Subparts").
size_t ill_formed_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t expected = first >= 0xc2 && first <= 0xdf   ? 2
                          : first >= 0xe0 && first <= 0xef ? 3
                          : first >= 0xf0 && first <= 0xf4 ? 4
                                                           : 1;
  size_t size = 1;
  while (size < expected && size < text.size() && (byte(size) & 0xc0) == 0x80) {
    if (size == 1) {
      const bool in_range = !(first == 0xe0 && byte(1) < 0xa0) && !(first == 0xed && byte(1) > 0x9f) &&
                            !(first == 0xf0 && byte(1) < 0x90) && !(first == 0xf4 && byte(1) > 0x8f);
      if (!in_range) break;
    }
    ++size;
  }
  return size;
}

// Puts U+FFFD in the place of what is not UTF-8; the first place is known. Returns how many there are.
int64_t replace_ill_formed(std::string& line, size_t first) {
  const std::string before = std::move(line);
  line.assign(before, 0, first);
  std::string_view rest = std::string_view(before).substr(first);
  int64_t count = 0;
  while (!rest.empty()) {
    rest.remove_prefix(ill_formed_size(rest));
    line.append(kReplacement);
    ++count;
    const size_t valid = valid_utf8_prefix(rest);
    line.append(rest.substr(0, valid));
    rest.remove_prefix(valid);
  }
  return count;
}

}  // namespace

// The lines of a file as bytes, without their ends.
class TextFiles::LineReader {
 public:
  LineReader(const std::string& path, std::function<bool()> stop_requested) : file_(path, std::move(stop_requested)) {}

  bool next(std::string& line) {
    line.clear();
    line_offset_ = offset_;
    bool any = false;
    while (true) {
      if (chunk_.empty()) {
        chunk_ = file_.next_chunk();
        if (chunk_.empty()) break;
      }
      any = true;
      const size_t end = chunk_.find('\n');
      const size_t taken = end == std::string_view::npos ? chunk_.size() : end + 1;
      line.append(chunk_.substr(0, taken));
      chunk_.remove_prefix(taken);
      offset_ += static_cast<int64_t>(taken);
      if (end == std::string_view::npos) continue;
      line.pop_back();
      if (line.ends_with('\r')) line.pop_back();
      break;
    }
    if (line_offset_ == 0 && line.starts_with(kUtf8Mark)) {
      line.erase(0, kUtf8Mark.size());
      line_offset_ += static_cast<int64_t>(kUtf8Mark.size());
    }
    return any;
  }

  // Where in the unpacked file the line begins.
  int64_t line_offset() const { return line_offset_; }
  // Unpacked bytes of all lines so far.
  int64_t offset() const { return offset_; }
  int64_t num_read() const { return file_.num_read(); }

 private:
  UnpackedFile file_;
  std::string_view chunk_;  // not given out yet
  int64_t offset_ = 0;
  int64_t line_offset_ = 0;
};

TextFiles::TextFiles(TextFilesOptions options) : options_(std::move(options)) {
  for (const std::string& path : options_.files) {
    // Opening a pipe twice would lose what is in it.
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) continue;
    total_bytes_ += InputFile(path, {}).size();
  }
}

TextFiles::~TextFiles() = default;

bool TextFiles::next(std::string& line) {
  while (true) {
    if (!reader_) {
      if (next_file_ == options_.files.size()) return false;
      reader_ = std::make_unique<LineReader>(options_.files[next_file_++], options_.stop_requested);
      ++report_.files;
    }
    const int64_t before = reader_->offset();
    const int64_t read_before = reader_->num_read();
    const bool found = reader_->next(line);
    report_.source_bytes += reader_->offset() - before;
    if (found) break;
    bytes_of_past_files_ += read_before;
    reader_.reset();
  }
  ++report_.source_lines;
  make_valid(line);
  return true;
}

void TextFiles::make_valid(std::string& line) {
  const size_t valid = valid_utf8_prefix(line);
  if (valid == line.size()) return;
  const std::string& file = options_.files[next_file_ - 1];
  if (const std::string other = other_encoding(line); reader_->line_offset() == 0 && !other.empty()) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: {}", file, other));
  }
  if (options_.invalid_utf8 == InvalidUtf8::kRefuse) {
    const std::string& option = options_.replacing_option;
    throw ErrorException(
        ErrorCode::kParse,
        fmt::format("{}: not UTF-8 at byte {} (0x{:02x}){}", file, reader_->line_offset() + static_cast<int64_t>(valid),
                    static_cast<uint8_t>(line[valid]), option.empty() ? "" : "; " + option + " puts U+FFFD there"));
  }
  report_.replaced_sequences += replace_ill_formed(line, valid);
}

double TextFiles::fraction_read() const {
  if (total_bytes_ == 0) return 0;
  const int64_t read = bytes_of_past_files_ + (reader_ ? reader_->num_read() : 0);
  return std::min(1.0, static_cast<double>(read) / static_cast<double>(total_bytes_));
}

}  // namespace millrace
