// The chart types and components that the report uses, and nothing else.
import { init, use } from "echarts/core";
import { CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { DataZoomInsideComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { LabelLayout } from "echarts/features";
import { SVGRenderer } from "echarts/renderers";

use([
  CustomChart, LineChart, ScatterChart,
  DataZoomInsideComponent, GridComponent, MarkLineComponent, TooltipComponent,
  LabelLayout, SVGRenderer,
]);

export { init };
