#include "benchmarks/object_store/store_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "benchmarks/latency_histogram.h"
#include "benchmarks/process_usage.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/blocking_result.h"
#include "millrace/formats/storage/remote/disk_cache.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/watch/shard_digest_reader.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kRoot = "s3://bench/";

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// How long reads take, retries included.
struct ReadTimes {
  void add(Clock::time_point begin) {
    const std::lock_guard lock(mutex);
    histogram.add(std::chrono::nanoseconds(Clock::now() - begin).count());
  }
  std::mutex mutex;
  LatencyHistogram histogram;
};

class TimedSink final : public ReadSink {
 public:
  TimedSink(std::shared_ptr<ReadSink> sink, std::shared_ptr<ReadTimes> times)
      : sink_(std::move(sink)), times_(std::move(times)) {}
  void read_done(ReadResult result) noexcept override {
    times_->add(begin_);
    sink_->read_done(std::move(result));
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  const std::shared_ptr<ReadSink> sink_;
  const std::shared_ptr<ReadTimes> times_;
};

class TimedFile final : public File {
 public:
  TimedFile(std::shared_ptr<File> file, std::shared_ptr<ReadTimes> times)
      : file_(std::move(file)), times_(std::move(times)) {}
  uint64_t size() const override { return file_->size(); }
  std::string version() const override { return file_->version(); }
  ReadAdvice advice() const override { return file_->advice(); }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    file_->read(offset, destination, std::make_shared<TimedSink>(std::move(sink), times_));
  }
  void cancel() override { file_->cancel(); }

 private:
  const std::shared_ptr<File> file_;
  const std::shared_ptr<ReadTimes> times_;
};

class TimedOpen final : public OpenSink {
 public:
  TimedOpen(std::shared_ptr<OpenSink> sink, std::shared_ptr<ReadTimes> times)
      : sink_(std::move(sink)), times_(std::move(times)) {}
  void open_done(OpenResult result) noexcept override {
    if (result.file != nullptr) result.file = std::make_shared<TimedFile>(std::move(result.file), times_);
    sink_->open_done(std::move(result));
  }

 private:
  const std::shared_ptr<OpenSink> sink_;
  const std::shared_ptr<ReadTimes> times_;
};

class TimedStorage final : public Storage {
 public:
  explicit TimedStorage(std::shared_ptr<ReadTimes> times) : times_(std::move(times)) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    storage_->open(path, std::make_shared<TimedOpen>(std::move(sink), times_));
  }
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return storage_->glob(pattern); }

 private:
  const std::shared_ptr<RemoteStorage> storage_ = RemoteStorage::of_process();
  const std::shared_ptr<ReadTimes> times_;
};

class Opened final : public OpenSink {
 public:
  void open_done(OpenResult result) noexcept override { result_.set(std::move(result)); }
  std::shared_ptr<File> wait() {
    OpenResult result = result_.wait();
    if (result.file == nullptr) throw ErrorException(std::move(result.error.error));
    return std::move(result.file);
  }

 private:
  BlockingResult<OpenResult> result_;
};

// Reads parts of objects, so many at a time: each place takes the next part as soon as it is done.
class PartReads {
 public:
  struct Part {
    std::string url;
    std::string_view expected;  // of the content
    uint64_t offset;
  };

  PartReads(std::vector<Part> parts, int64_t part_bytes, int64_t in_flight) : parts_(std::move(parts)) {
    for (int64_t i = 0; i < in_flight; ++i) {
      places_.push_back(std::make_shared<Place>(*this, static_cast<size_t>(part_bytes)));
    }
  }

  void run() {
    num_active_ = places_.size();
    for (const auto& place : places_) place->go_on();
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return num_active_ == 0; });
    if (!error_.empty()) throw std::runtime_error(error_);
  }

 private:
  class Place final : public ReadSink, public OpenSink, public std::enable_shared_from_this<Place> {
   public:
    Place(PartReads& reads, size_t bytes) : reads_(reads), bytes_(bytes) {}
    void go_on() {
      const Part* const next = reads_.take();
      if (next == nullptr) return reads_.end("");
      part_ = *next;
      done_ = 0;
      reads_.storage_->open(part_.url, shared_from_this());
    }
    void open_done(OpenResult result) noexcept override {
      if (result.file == nullptr) return reads_.end(result.error.error.message);
      file_ = std::move(result.file);
      read();
    }
    void read_done(ReadResult result) noexcept override {
      if (!result.ok) return reads_.end(result.error.error.message);
      if (result.bytes == 0) return reads_.end("an object ended too early");
      done_ += result.bytes;
      if (done_ < part_.expected.size()) return read();
      const std::string_view got(reinterpret_cast<const char*>(bytes_.data()), done_);
      constexpr size_t kLooked = 4096;
      const size_t looked = std::min(got.size(), kLooked);
      const bool is_right = got.substr(0, looked) == part_.expected.substr(0, looked) &&
                            got.substr(got.size() - looked) == part_.expected.substr(got.size() - looked);
      if (!is_right) return reads_.end("other bytes came than the object has");
      go_on();
    }

   private:
    void read() {
      file_->read(part_.offset + done_, std::span(bytes_).subspan(done_, part_.expected.size() - done_),
                  shared_from_this());
    }

    PartReads& reads_;
    std::vector<std::byte> bytes_;
    Part part_ = {};
    size_t done_ = 0;
    std::shared_ptr<File> file_;
  };

  const Part* take() {
    const std::lock_guard lock(mutex_);
    return next_ < parts_.size() && error_.empty() ? &parts_[next_++] : nullptr;
  }
  // Of one place; `error`: empty where there was none.
  void end(const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = error;
    if (--num_active_ == 0) ended_.notify_one();
  }

  const std::shared_ptr<RemoteStorage> storage_ = RemoteStorage::of_process();
  const std::vector<Part> parts_;
  std::vector<std::shared_ptr<Place>> places_;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t next_ = 0;
  size_t num_active_ = 0;  // places
  std::string error_;
};

}  // namespace

void use_store(const std::string& endpoint) {
  for (const char* name :
       {"AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_NO_SIGN_REQUEST", "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_REQUEST_PAYER", "http_proxy", "all_proxy", "ALL_PROXY"}) {
    ::unsetenv(name);
  }
  for (const auto& [name, value] : {std::pair{"AWS_ENDPOINT_URL_S3", endpoint.c_str()},
                                    {"AWS_REGION", "us-east-1"},
                                    {"AWS_ACCESS_KEY_ID", "bench"},
                                    {"AWS_SECRET_ACCESS_KEY", "bench"},
                                    {"AWS_CONFIG_FILE", "/dev/null"},
                                    {"AWS_SHARED_CREDENTIALS_FILE", "/dev/null"}}) {
    ::setenv(name, value, 1);
  }
}

Figures read_records(const RecordsRun& run) {
  const double cpu = process_usage().cpu_seconds;
  const auto begin = Clock::now();
  const auto dataset =
      Dataset::tfrecord(Shards::glob(run.pattern), {.cycle_length = static_cast<size_t>(run.cycle_length)})
          .batch(256)
          .prefetch(2);
  StartOptions options{.threads = run.threads,
                       .disk_cache = {.folder = run.cache},
                       .memory_budget = run.memory_mb << 20,
                       .watchdog = 60};
  const auto cache = run.cache.empty() ? nullptr : DiskCache::open(options.disk_cache);
  const auto times = std::make_shared<ReadTimes>();
  if (run.times_reads) options.storage = std::make_shared<TimedStorage>(times);
  Pipeline pipeline = dataset.start(options);
  StreamHash hash;
  LatencyHistogram waits;
  double first = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;
  for (int64_t batches = 0; run.batches == 0 || batches < run.batches; ++batches) {
    const auto asked = Clock::now();
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    waits.add(std::chrono::nanoseconds(Clock::now() - asked).count());
    if (batches == 0) first = seconds_since(begin);
    hash.add(*batch);
    records += static_cast<uint64_t>(batch->num_rows());
    for (const std::string_view record : batch->values<std::string_view>("record")) bytes += record.size();
  }
  const double seconds = seconds_since(begin);
  const ProcessUsage usage = process_usage();
  const uint64_t digest = std::strtoull(hash.hex().c_str(), nullptr, 16) & ((uint64_t{1} << 48) - 1);
  Figures figures{{"seconds", seconds},
                  {"first_seconds", first},
                  {"records", static_cast<double>(records)},
                  {"bytes", static_cast<double>(bytes)},
                  {"hash", static_cast<double>(digest)},
                  {"cpu_seconds", usage.cpu_seconds - cpu},
                  {"peak_mb", usage.peak_rss_mb},
                  {"wait_p999_ms", 1e-6 * static_cast<double>(waits.percentile_ns(0.999))}};
  if (cache != nullptr) {
    cache->flush();
    figures.emplace_back("cached", static_cast<double>(cache->statistics().hit_bytes));
  }
  if (run.times_reads) {
    const std::lock_guard lock(times->mutex);
    figures.emplace_back("read_p50_ms", 1e-6 * static_cast<double>(times->histogram.percentile_ns(0.5)));
    figures.emplace_back("read_p999_ms", 1e-6 * static_cast<double>(times->histogram.percentile_ns(0.999)));
  }
  return figures;
}

Figures read_bytes(const StoreContent& content, int64_t part_bytes, int64_t in_flight) {
  std::vector<PartReads::Part> parts;
  uint64_t bytes = 0;
  for (const auto& [key, slice] : content.objects()) {
    if (!key.starts_with("train/")) continue;
    const std::string_view whole = content.bytes(slice);
    for (uint64_t offset = 0; offset < whole.size(); offset += static_cast<uint64_t>(part_bytes)) {
      parts.push_back({kRoot + key, whole.substr(offset, static_cast<size_t>(part_bytes)), offset});
    }
    bytes += whole.size();
  }
  PartReads reads(std::move(parts), part_bytes, in_flight);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins here
  const double cpu = process_usage().cpu_seconds;
  const auto begin = Clock::now();
  static_cast<void>(RemoteStorage::of_process()->glob(fmt::format("{}train/*", kRoot)));
  reads.run();
  const double seconds = seconds_since(begin);
  const ProcessUsage usage = process_usage();
  return {{"seconds", seconds},
          {"bytes", static_cast<double>(bytes)},
          {"cpu_seconds", usage.cpu_seconds - cpu},
          {"peak_mb", usage.peak_rss_mb}};
}

Figures read_fingerprints(const StoreContent& content) {
  const double cpu = process_usage().cpu_seconds;
  const auto begin = Clock::now();
  const std::vector<std::string> urls = RemoteStorage::glob_of_process(fmt::format("{}small/*", kRoot), nullptr);
  const double list_seconds = seconds_since(begin);
  const auto listed = Clock::now();
  ShardDigestReader reader(urls, nullptr, std::make_shared<FileVersions>());
  const ShardDigest digest = reader.digest("object_store_bench");
  const double seconds = seconds_since(listed);
  const double cpu_seconds = process_usage().cpu_seconds - cpu;
  ContentStorage expected(content, kRoot);
  if (const std::string text = digest.difference(read_shard_digest(expected, urls), urls); !text.empty()) {
    throw std::runtime_error("other fingerprints than those of the objects: " + text);
  }
  return {{"shards", static_cast<double>(urls.size())},
          {"list_seconds", list_seconds},
          {"seconds", seconds},
          {"cpu_seconds", cpu_seconds}};
}

}  // namespace millrace
