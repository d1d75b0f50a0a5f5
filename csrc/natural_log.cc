// The table of the logarithm, by its series: ln c = 2 (s + s³/3 + s⁵/5 + …), s = (c − 1) / (c + 1).
#include "natural_log.h"

namespace calib8 {

NaturalLog::NaturalLog() : table_() {
  for (int i = 0; i < 256; ++i) {
    const double centre = 1.0 + (i + 0.5) / 256;
    // 12 bits: m · d − 1 is then rounded once.
    const double inverse = static_cast<double>(static_cast<int>(4096.0 / centre + 0.5)) / 4096.0;
    const double s = (1.0 - inverse) / (1.0 + inverse);
    double sum = 0.0;
    for (int power = 39; power > 0; power -= 2) sum = sum * s * s + 1.0 / power;
    table_[i] = {inverse, 2.0 * s * sum};
  }
}

const NaturalLog natural_log;

}  // namespace calib8
