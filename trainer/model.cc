#include "millrace/trainer/model.h"

#include "millrace/formats/error.h"

namespace millrace {

Predictions Model::predict(const BatchView&, const float*, Workspace&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, "this model predicts nothing");
}

}  // namespace millrace
