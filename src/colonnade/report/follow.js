// A page that follows a run: it asks its server whether there is a newer checkpoint than it shows, and then loads anew.
setInterval(async () => {
  const gone = document.getElementById("gone");
  try {
    const answer = await fetch("/state", { cache: "no-store" });
    const state = await answer.json();
    gone.hidden = true;
    if (state.checkpoint !== document.body.dataset.checkpoint) location.reload();
  } catch {
    gone.hidden = false;
  }
}, 2000);
