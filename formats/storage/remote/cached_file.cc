#include "millrace/formats/storage/remote/cached_file.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/formats/storage/range_reader.h"
#include "millrace/formats/storage/remote/cache_block.h"
#include "millrace/formats/storage/remote/object_version.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

using State = CachedObject::State;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A file of a store, of which blocks are read from the disk where they are there. One read at a time, as of any file:
// its steps follow one another, on whatever threads the answers come.
class CachedFile final : public File,
                         public OpenSink,
                         public ReadSink,
                         public std::enable_shared_from_this<CachedFile> {
 public:
  CachedFile(std::shared_ptr<BlockCache> cache, std::shared_ptr<CachedObject> object, std::shared_ptr<File> file)
      : cache_(std::move(cache)),
        object_(std::move(object)),
        file_(std::move(file)),
        is_fully_cached_(object_->is_fully_cached()) {}

  uint64_t size() const override { return file_->size(); }
  std::string version() const override { return file_->version(); }
  // What is all here is read as local files are.
  ReadAdvice advice() const override { return is_fully_cached_ ? ReadAdvice{} : file_->advice(); }
  void cancel() override { file_->cancel(); }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    if (offset >= size()) return sink->read_done({});
    offset_ = offset;
    destination_ = destination.first(static_cast<size_t>(std::min<uint64_t>(destination.size(), size() - offset)));
    sink_ = std::move(sink);
    self_ = shared_from_this();
    try {
      start();
    } catch (...) {
      sink_ = nullptr;
      self_ = nullptr;
      throw;
    }
  }

 private:
  enum class Step { kOpening, kTrailer, kBytes, kEdge, kRemote };

  // Of the file that is read now.
  struct Block {
    std::shared_ptr<RangeReader> file;
    std::vector<uint32_t> crcs;
    std::bitset<kCacheBlockBytes / kCachePieceBytes> checked = {};
  };

  void start() {
    const uint64_t block = offset_ / kCacheBlockBytes;
    if (object_->state(block) == State::kPresent && block_ != nullptr && number_ == block) return read_block();
    block_ = nullptr;
    number_ = block;
    if (object_->state(block) != State::kPresent) return read_remote();
    step_ = Step::kOpening;
    cache_->files().open(files().path(block), shared_from_this());
  }

  void open_done(OpenResult result) noexcept override {
    try {
      if (result.file == nullptr) {  // it was removed meanwhile
        cache_->forget(object_, number_, /*is_damaged=*/false);
        return read_remote();
      }
      if (result.file->size() != files().file_size(number_)) return refuse_block();
      opening_ = std::make_unique<Block>();
      opening_->file = std::make_shared<RangeReader>(std::move(result.file));
      const uint64_t length = files().length(number_);
      held_.resize(static_cast<size_t>(files().file_size(number_) - length));
      step_ = Step::kTrailer;
      opening_->file->read(length, held_, shared_from_this());
    } catch (...) {
      fail();
    }
  }

  void read_done(ReadResult result) noexcept override {
    try {
      switch (step_) {
        case Step::kTrailer: return take_trailer(result);
        case Step::kBytes: return take_bytes(result);
        case Step::kEdge: return take_edge(result);
        default: return take_remote(std::move(result));
      }
    } catch (...) {
      fail();
    }
  }

  void take_trailer(const ReadResult& result) {
    auto crcs = files().crcs(number_, text_of(held_));
    if (!result.ok || result.bytes != held_.size() || !crcs) return refuse_block();
    opening_->crcs = *std::move(crcs);
    block_ = std::move(opening_);
    cache_->note_use(object_, number_);
    read_block();
  }

  void read_block() {
    const uint64_t left = (number_ * kCacheBlockBytes) + files().length(number_) - offset_;
    if (destination_.size() > left) destination_ = destination_.first(static_cast<size_t>(left));
    step_ = Step::kBytes;
    block_->file->read(offset_ % kCacheBlockBytes, destination_, shared_from_this());
  }

  void take_bytes(const ReadResult& result) {
    if (!result.ok || result.bytes != destination_.size()) return refuse_block();
    const size_t begin = offset_ % kCacheBlockBytes;
    for (size_t piece = begin / kCachePieceBytes; piece * kCachePieceBytes < begin + destination_.size(); ++piece) {
      const auto [from, to] = range_of(piece);
      if (block_->checked[piece] || from < begin || to > begin + destination_.size()) continue;
      if (!check(piece, destination_.subspan(from - begin, to - from))) return refuse_block();
    }
    check_edges();
  }

  // Pieces of which only a part was asked for are read as a whole.
  void check_edges() {
    const size_t begin = offset_ % kCacheBlockBytes;
    const size_t last = (begin + destination_.size() - 1) / kCachePieceBytes;
    for (const size_t piece : {begin / kCachePieceBytes, last}) {
      if (block_->checked[piece]) continue;
      const auto [from, to] = range_of(piece);
      edge_ = piece;
      held_.resize(to - from);
      step_ = Step::kEdge;
      return block_->file->read(from, held_, shared_from_this());
    }
    cache_->note_hit(destination_.size());
    tell({.bytes = destination_.size()});
  }

  void take_edge(const ReadResult& result) {
    const auto [from, to] = range_of(edge_);
    if (!result.ok || result.bytes != to - from || !check(edge_, held_)) return refuse_block();
    // What was read before is of the same bytes.
    const size_t begin = offset_ % kCacheBlockBytes;
    const size_t common = std::max(from, begin);
    const size_t end = std::min(to, begin + destination_.size());
    std::memcpy(destination_.data() + (common - begin), held_.data() + (common - from), end - common);
    check_edges();
  }

  bool check(size_t piece, std::span<const std::byte> bytes) {
    if (crc32c(text_of(bytes)) != block_->crcs[piece]) return false;
    block_->checked.set(piece);
    return true;
  }
  std::pair<size_t, size_t> range_of(size_t piece) const { return piece_range(piece, files().length(number_)); }

  // It is asked of the store, and written anew.
  void refuse_block() {
    block_ = nullptr;
    opening_ = nullptr;
    cache_->forget(object_, number_, /*is_damaged=*/true);
    read_remote();
  }

  // No further than where the next block is here; those that begin with it are to be written.
  void read_remote() {
    uint64_t end = offset_ + destination_.size();
    for (uint64_t block = number_; block * kCacheBlockBytes < end; ++block) {
      if (block > number_ && object_->state(block) == State::kPresent) end = block * kCacheBlockBytes;
      if (block * kCacheBlockBytes >= offset_ && block * kCacheBlockBytes < end) cache_->begin(object_, block);
    }
    destination_ = destination_.first(static_cast<size_t>(end - offset_));
    step_ = Step::kRemote;
    file_->read(offset_, destination_, shared_from_this());
  }

  void take_remote(ReadResult result) {
    if (result.ok && result.bytes > 0) cache_->offer(object_, offset_, destination_.first(result.bytes));
    tell(std::move(result));
  }

  void fail() noexcept { tell({.ok = false, .error = {.error = current_exception_as_error()}}); }

  // The owner may ask for more inside.
  void tell(ReadResult result) noexcept {
    const std::shared_ptr<CachedFile> self = std::move(self_);
    const std::shared_ptr<ReadSink> sink = std::move(sink_);
    sink->read_done(std::move(result));
  }

  const CacheObject& files() const { return object_->files(); }

  const std::shared_ptr<BlockCache> cache_;
  const std::shared_ptr<CachedObject> object_;
  const std::shared_ptr<File> file_;
  const bool is_fully_cached_;  // when it was opened

  uint64_t number_ = 0;           // of the block that is open or being opened
  std::unique_ptr<Block> block_;  // null: none is
  std::unique_ptr<Block> opening_;
  std::vector<std::byte> held_;  // a trailer, or a piece of which a part was asked for
  size_t edge_ = 0;              // that piece
  // Of the read in flight, which keeps the file.
  Step step_ = Step::kOpening;
  uint64_t offset_ = 0;
  std::span<std::byte> destination_;
  std::shared_ptr<ReadSink> sink_;
  std::shared_ptr<CachedFile> self_;
};

class Opening final : public OpenSink {
 public:
  Opening(std::shared_ptr<BlockCache> cache, std::string url, std::string identity, std::shared_ptr<OpenSink> sink)
      : cache_(std::move(cache)), url_(std::move(url)), identity_(std::move(identity)), sink_(std::move(sink)) {}

  void open_done(OpenResult result) noexcept override {
    const std::shared_ptr<File> file = result.file;
    if (file == nullptr || file->size() == 0) return sink_->open_done(std::move(result));
    try {
      const std::string version = file->version();
      if (!tells_contents_apart(version)) {
        cache_->note_uncached();
        return sink_->open_done(std::move(result));
      }
      cache_->find(CacheObject::of(cache_->folder(), identity_, version, file->size(), url_),
                   [cache = cache_, sink = sink_, file](std::shared_ptr<CachedObject> object) {
                     OpenResult opened{.file = file};
                     try {
                       if (object != nullptr)
                         opened.file = std::make_shared<CachedFile>(cache, std::move(object), file);
                     } catch (...) {  // then without
                     }
                     sink->open_done(std::move(opened));
                   });
    } catch (...) {
      sink_->open_done({.error = {.error = current_exception_as_error()}});
    }
  }

 private:
  const std::shared_ptr<BlockCache> cache_;
  const std::string url_;
  const std::string identity_;
  const std::shared_ptr<OpenSink> sink_;
};

}  // namespace

void open_cached(std::shared_ptr<BlockCache> cache, Storage& storage, const std::string& url,
                 const std::string& identity, std::shared_ptr<OpenSink> sink) {
  storage.open(url, std::make_shared<Opening>(std::move(cache), url, identity, std::move(sink)));
}

}  // namespace millrace
