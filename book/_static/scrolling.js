// Let the keyboard reach what scrolls sideways, as the theme does for code blocks. A
// closed cell has no width, so its contents are measured when it opens.
function reach() {
  const boxes = ".pst-scrollable-table-container, .bd-content :is(figure, div.math, pre, p:has(> img))";
  for (const box of document.querySelectorAll(boxes)) {
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
  }
}
addEventListener("load", reach);
addEventListener("resize", reach);
addEventListener("toggle", reach, true);
