#include "benchmarks/object_store/store_writer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "benchmarks/process_usage.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 1 << 20;

// What is written, by pieces of which each begins elsewhere.
class Pieces {
 public:
  Pieces() : bytes_(2 * kPiece, '\0') {
    uint64_t state = 1;
    for (char& byte : bytes_) {
      state = state * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<char>(state >> 56);
    }
  }
  [[nodiscard]] std::string_view piece(int64_t number, int64_t left) const {
    const auto begin = static_cast<size_t>(number * 4099) % kPiece;
    return std::string_view(bytes_).substr(begin, std::min<size_t>(kPiece, static_cast<size_t>(left)));
  }

 private:
  std::string bytes_;
};

Figures figures_of(Clock::time_point begin, double cpu, int64_t bytes, uint64_t sum) {
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ProcessUsage usage = process_usage();
  return {{"seconds", seconds},
          {"bytes", static_cast<double>(bytes)},
          {"sum", static_cast<double>(sum)},
          {"cpu_seconds", usage.cpu_seconds - cpu},
          {"peak_mb", usage.peak_rss_mb}};
}

}  // namespace

uint64_t sum_of(std::string_view bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0},
                         [](uint64_t sum, char byte) { return sum + static_cast<unsigned char>(byte); });
}

Figures write_object(int64_t bytes) {
  const Pieces pieces;
  uint64_t sum = 0;
  for (int64_t at = 0, i = 0; at < bytes; at += kPiece) sum += sum_of(pieces.piece(i++, bytes - at));
  const double cpu = process_usage().cpu_seconds;
  const auto begin = Clock::now();
  const auto file = open_output_anywhere("s3://bench/written/object");
  for (int64_t at = 0, i = 0; at < bytes; at += kPiece) file->write(pieces.piece(i++, bytes - at));
  file->commit();
  return figures_of(begin, cpu, bytes, sum);
}

Figures write_folder(int64_t bytes, int64_t files, const std::string& folder) {
  const std::string local = fmt::format("{}/object_store_bench-written-{}", folder, ::getpid());
  std::filesystem::create_directories(local);
  const Pieces pieces;
  const int64_t each = bytes / files;
  uint64_t sum = 0;
  for (int64_t i = 0; i < files; ++i) {
    std::ofstream file(fmt::format("{}/{}", local, i), std::ios::binary);
    for (int64_t at = 0, j = i; at < each; at += kPiece) {
      const std::string_view piece = pieces.piece(j++, each - at);
      sum += sum_of(piece);
      file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    }
  }
  const double cpu = process_usage().cpu_seconds;
  const auto begin = Clock::now();
  {
    FolderUpload upload("s3://bench/written/folder");
    for (int64_t i = 0; i < files; ++i) upload.add(fmt::format("{}", i), fmt::format("{}/{}", local, i));
    upload.commit();
  }
  Figures figures = figures_of(begin, cpu, each * files, sum);
  std::filesystem::remove_all(local);
  return figures;
}

}  // namespace millrace
