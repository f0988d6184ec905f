#include "millrace/pipeline/watch/traced_storage.h"

#include <utility>

#include "millrace/pipeline/run/stage_statistics.h"

namespace millrace {
namespace {

// At most one read is in flight on a handle, so the file itself is the sink of its reads.
class TracedFile final : public File, public ReadSink, public std::enable_shared_from_this<TracedFile> {
 public:
  TracedFile(std::shared_ptr<File> wrapped, std::shared_ptr<Trace> trace)
      : wrapped_(std::move(wrapped)), trace_(std::move(trace)), name_(trace_->name("read")) {}

  uint64_t size() const override { return wrapped_->size(); }
  std::string version() const override { return wrapped_->version(); }
  ReadAdvice advice() const override { return wrapped_->advice(); }
  void cancel() override { wrapped_->cancel(); }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    sink_ = std::move(sink);
    lane_ = trace_->take_lane();
    begin_ = now_ns();
    const TracedFile* const outer = std::exchange(reading, this);
    try {
      wrapped_->read(offset, destination, shared_from_this());
    } catch (...) {
      reading = outer;
      trace_->give_back_lane(lane_);
      sink_ = nullptr;
      throw;
    }
    reading = outer;
  }

  void read_done(ReadResult result) noexcept override {
    const int64_t end = now_ns();
    reading == this ? trace_->span(name_, begin_, end) : trace_->lane_span(name_, begin_, end, lane_);
    trace_->give_back_lane(lane_);
    std::exchange(sink_, nullptr)->read_done(std::move(result));  // may read again
  }

 private:
  // The one whose `read` this thread is in.
  static inline constinit thread_local const TracedFile* reading = nullptr;

  const std::shared_ptr<File> wrapped_;
  const std::shared_ptr<Trace> trace_;
  const uint32_t name_;
  std::shared_ptr<ReadSink> sink_;
  int64_t begin_ = 0;
  uint32_t lane_ = 0;
};

class TracedOpen final : public OpenSink {
 public:
  TracedOpen(std::shared_ptr<OpenSink> sink, std::shared_ptr<StorageLifetime> lifetime, std::shared_ptr<Trace> trace)
      : sink_(std::move(sink)), lifetime_(std::move(lifetime)), trace_(std::move(trace)) {}
  void open_done(OpenResult result) noexcept override {
    const auto traced = [this](std::shared_ptr<File> file) {
      return std::make_shared<TracedFile>(std::move(file), trace_);
    };
    lifetime_->answer(*sink_, with_file(std::move(result), traced));
  }

 private:
  const std::shared_ptr<OpenSink> sink_;
  const std::shared_ptr<StorageLifetime> lifetime_;
  const std::shared_ptr<Trace> trace_;
};

}  // namespace

TracedStorage::TracedStorage(std::shared_ptr<Storage> wrapped, std::shared_ptr<Trace> trace)
    : wrapped_(std::move(wrapped)), trace_(std::move(trace)) {}

TracedStorage::~TracedStorage() { lifetime_->end(); }

void TracedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  wrapped_->open(path, std::make_shared<TracedOpen>(std::move(sink), lifetime_, trace_));
}

}  // namespace millrace
