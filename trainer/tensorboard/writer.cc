#include "millrace/trainer/tensorboard/writer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/storage/atomic_directory.h"
#include "trainer/tensorboard/event.pb.h"

namespace millrace {
namespace {

constexpr int kHistogramBuckets = 30;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_in(const std::string& folder) {
  static std::atomic<int> number{0};
  make_folder(folder);
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  // In a container that is started again within a second even the process has the number of the one before.
  std::filesystem::path path;
  do {
    path = std::filesystem::path(folder) / fmt::format("events.out.tfevents.{:010.0f}.{}.{}.{}",
                                                       std::floor(wall_seconds()), host, ::getpid(), number++);
  } while (std::filesystem::exists(path));
  return path.string();
}

tensorboard::Event event_at(int64_t step) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds());
  event.set_step(step);
  return event;
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::string& folder, int64_t step)
    : writer_(file_in(folder), {.in_place = true}) {
  tensorboard::Event event = event_at(0);
  event.set_file_version("brain.Event:2");
  writer_.write(event.SerializeAsString());
  event = event_at(step + 1);  // of this step and later ones nothing that was there before counts
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  writer_.write(event.SerializeAsString());
  flush();
}

void TensorboardWriter::scalar(int64_t step, const std::string& tag, double value) {
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& summary = *event.mutable_summary()->add_value();
  summary.set_tag(tag);
  summary.set_simple_value(static_cast<float>(value));
  writer_.write(event.SerializeAsString());
}

void TensorboardWriter::histogram(int64_t step, const std::string& tag, std::span<const float> values) {
  tensorboard::Event event = event_at(step);
  tensorboard::Summary::Value& summary = *event.mutable_summary()->add_value();
  summary.set_tag(tag);
  tensorboard::Histogram& histogram = *summary.mutable_histogram();
  double least = INFINITY;
  double most = -INFINITY;
  double number = 0;
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min<double>(least, value);
    most = std::max<double>(most, value);
    number += 1;
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  if (number == 0) return;
  // Values that are all equal get a part of their own in the middle.
  const double width = most > least ? (most - least) / kHistogramBuckets : 1;
  const double begin = most > least ? least : least - width * kHistogramBuckets / 2;
  std::vector<double> counts(kHistogramBuckets);
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const auto bucket = static_cast<int>((value - begin) / width);
    ++counts[static_cast<size_t>(std::clamp(bucket, 0, kHistogramBuckets - 1))];
  }
  histogram.set_min(least);
  histogram.set_max(most);
  histogram.set_num(number);
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (int bucket = 0; bucket < kHistogramBuckets; ++bucket) {
    histogram.add_bucket_limit(begin + width * (bucket + 1));
    histogram.add_bucket(counts[static_cast<size_t>(bucket)]);
  }
  writer_.write(event.SerializeAsString());
}

}  // namespace millrace
