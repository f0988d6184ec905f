#include "benchmarks/floor/tensor_filler.h"

#include <array>

#include "benchmarks/workload_features.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/formats/example/tensor_message.h"

namespace millrace {
namespace {

class TensorFiller final : public RowFiller {
 public:
  explicit TensorFiller(std::shared_ptr<const ExampleParser> parser) : parser_(std::move(parser)) {}

  void fill(const ScheduledBatch&, size_t row, std::string_view record, FloorBatch& out) override {
    std::array<std::string_view, 2> messages;
    const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(&messages[0]),
                                              reinterpret_cast<std::byte*>(&messages[1])};
    if (auto error = parser_->parse(record, pool_, places)) throw ErrorException(*std::move(error));
    for (size_t c = 0; c < messages.size(); ++c) {
      const TensorMessage tensor = TensorMessage::read(messages[c], pool_);
      const size_t at = row * static_cast<size_t>(tensor.num_values());
      tensor.copy_to(DType::kFloat32, reinterpret_cast<std::byte*>(out.values<float>(c) + at));
    }
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
  BufferPool pool_;
};

}  // namespace

RowFilling tensor_filling() {
  std::vector<FeatureDescription> messages;
  std::vector<FeatureSpec> features;
  for (const WorkloadImage& image : workload_images()) {
    messages.push_back(fixed_len(image.feature, {}, DType::kBytes));
    features.push_back({image.feature, DType::kFloat32, image.shape});
  }
  const auto parser = std::make_shared<const ExampleParser>(std::move(messages));
  return {std::make_shared<const Schema>(std::move(features)),
          [parser] { return std::make_unique<TensorFiller>(parser); }};
}

}  // namespace millrace
