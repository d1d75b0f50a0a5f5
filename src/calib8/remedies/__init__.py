"""What helps against the findings of a diagnosis: every remedy is carried out and measured first."""

from calib8.remedies.clinic import Clinic as Clinic
from calib8.remedies.diagnose import diagnose as diagnose
from calib8.remedies.treatment import Remedy as Remedy
from calib8.remedies.treatment import Treatment as Treatment
from calib8.remedies.treatment import Wish as Wish
