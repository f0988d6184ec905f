#include "millrace/trainer/model.h"

#include "millrace/formats/error.h"

namespace millrace {

Predictions Model::predict(const BatchView&, const float*, Workspace&) const {
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      "this model predicts nothing: predictions, and the metrics of an evaluation, need its columns (in a "
      "TapeModel ForwardResult::columns, where pass.predicts())");
}

}  // namespace millrace
